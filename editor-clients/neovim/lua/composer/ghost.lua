--- The suggestion of the current buffer, the same on every version of Neovim: 0.12 fetches and shows
--- it by `vim.lsp.inline_completion`, 0.11 by `composer.fetch`.
local M = {}

local suggestion = require("composer.suggestion")

local METHOD = "textDocument/inlineCompletion"

---@return table
local function source()
  return require(vim.lsp.inline_completion and "composer.builtin" or "composer.fetch")
end

---@param client vim.lsp.Client
---@param bufnr integer
function M.attach(client, bufnr)
  if client:supports_method(METHOD, bufnr) then
    source().attach(client, bufnr)
  end
end

--- What is left of the suggestion at the cursor.
---@return string?
function M.remaining()
  if not vim.api.nvim_get_mode().mode:find("^i") then
    return nil
  end
  return suggestion.remaining(source().current(vim.api.nvim_get_current_buf()))
end

---@param part composer.Part
---@return boolean accepted
function M.accept(part)
  if not M.remaining() then
    return false
  end
  source().accept(vim.api.nvim_get_current_buf(), part)
  return true
end

--- Whether the key that also indents should indent: nothing but white space stands before the
--- cursor, and the suggestion begins with white space.
---@return boolean
function M.is_indentation()
  local rest = M.remaining()
  local col = vim.api.nvim_win_get_cursor(0)[2]
  local before = vim.api.nvim_get_current_line():sub(1, col)
  return rest ~= nil and rest:find("^[ \t]") ~= nil and not before:find("%S")
end

function M.next()
  source().next(vim.api.nvim_get_current_buf())
end

---@return boolean dismissed
function M.dismiss()
  local is_shown = M.remaining() ~= nil
  source().dismiss(vim.api.nvim_get_current_buf())
  return is_shown
end

return M
