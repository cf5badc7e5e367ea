--- Which language server to start.
local M = {}

M.PROGRAM = "composer-lsp"

M.INSTALL = "Install it with `pipx install .` in a clone of Composer's repository, or name it by the"
  .. " option `cmd`, then run :Composer restart. See docs/neovim.md"

--- The program of the Python environment that Neovim was started in.
---@return string?
local function in_environment()
  local environment = vim.env.VIRTUAL_ENV
  if not environment or environment == "" then
    return nil
  end
  local folder = vim.fn.has("win32") == 1 and "Scripts" or "bin"
  return vim.fs.joinpath(environment, folder, M.PROGRAM)
end

--- The command to start, and every place that was searched.
---@return string[]? cmd
---@return string[] searched
function M.find()
  local cmd = require("composer.config").options.cmd
  if cmd then
    local program = vim.fn.exepath(vim.fn.expand(cmd[1]))
    return program ~= "" and { program, unpack(cmd, 2) } or nil, { cmd[1] }
  end
  local searched = { "the PATH" }
  local candidate = in_environment()
  if candidate then
    table.insert(searched, 1, candidate)
  end
  local program = candidate and vim.fn.exepath(candidate) or ""
  if program == "" then
    program = vim.fn.exepath(M.PROGRAM)
  end
  return program ~= "" and { program, "serve" } or nil, searched
end

--- Another command of the same program: a command's last word may be the subcommand `serve`.
---@param cmd string[]
---@param ... string
---@return string[]
function M.with(cmd, ...)
  local words = cmd[#cmd] == "serve" and vim.list_slice(cmd, 1, #cmd - 1) or vim.list_slice(cmd)
  return vim.list_extend(words, { ... })
end

--- A sentence for who has none.
---@param searched string[]
---@return string
function M.missing(searched)
  return ("%s was not found: searched %s. %s"):format(M.PROGRAM, table.concat(searched, " and "), M.INSTALL)
end

return M
