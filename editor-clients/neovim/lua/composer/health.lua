--- `:checkhealth composer`
local M = {}

local VERSION_LIMIT_MS = 30000

---@return boolean
local function check_neovim()
  if vim.fn.has("nvim-0.11") == 0 then
    vim.health.error("Neovim is too old", "Install Neovim 0.11 or newer")
    return false
  end
  local way = vim.lsp.inline_completion and "Neovim's own inline completion" or "the plugin's ghost text"
  vim.health.ok(("Neovim %s shows suggestions by %s"):format(tostring(vim.version()), way))
  return true
end

---@return boolean
local function check_program()
  local discovery = require("composer.discovery")
  local cmd, searched = discovery.find()
  if not cmd then
    vim.health.error(discovery.PROGRAM .. " was not found in " .. table.concat(searched, " and "), discovery.INSTALL)
    return false
  end
  local result = vim.system(discovery.with(cmd, "--version"), { text = true }):wait(VERSION_LIMIT_MS)
  if result.code ~= 0 then
    vim.health.error(("%s does not run: %s"):format(cmd[1], vim.trim(result.stderr or "")), discovery.INSTALL)
    return false
  end
  vim.health.ok(("%s (%s)"):format(vim.trim(result.stdout), cmd[1]))
  return true
end

local function check_server()
  if vim.fn.exists("#composer") == 0 then
    vim.health.error("The plugin is not set up", 'Call require("composer").setup({}) in your configuration')
    return
  end
  local client = require("composer.server").clients()[1]
  if not client then
    vim.health.warn("The language server is not running", "Open a file, or run :Composer restart")
    return
  end
  local status = require("composer.status").get()
  vim.health.ok("The language server runs: " .. (status and status.message or "no status yet"))
  if not client:supports_method("textDocument/inlineCompletion") then
    vim.health.error("It offers no inline completion", "Update composer-lsp")
  end
end

local function check_keys()
  for name, lhs in vim.spairs(require("composer.config").options.keys) do
    vim.health.info(("%s: %s"):format(name, lhs or "no key"))
  end
end

function M.check()
  vim.health.start("Composer")
  if check_neovim() and check_program() then
    check_server()
    check_keys()
    vim.health.info("`:Composer doctor` checks the model, the engine and the hardware")
    vim.health.info("Log of the protocol: " .. require("vim.lsp.log").get_filename())
  end
end

return M
