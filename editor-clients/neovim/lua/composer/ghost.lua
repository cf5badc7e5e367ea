--- The suggestion of the current buffer, the same on every version of Neovim: 0.12 fetches and shows
--- it by `vim.lsp.inline_completion`, 0.11 by `composer.fetch`.
local M = {}

local suggestion = require("composer.suggestion")

local METHOD = "textDocument/inlineCompletion"

---@class composer.Source What fetches and shows suggestions. None of these may run while text is locked.
---@field attach fun(client: vim.lsp.Client, group: integer, bufnr: integer)
---@field current fun(bufnr: integer): composer.Suggestion?
---@field accept fun(bufnr: integer, part: composer.Part)
---@field next fun(bufnr: integer)
---@field dismiss fun(bufnr: integer)

---@return composer.Source
local function source()
  return require(vim.lsp.inline_completion and "composer.builtin" or "composer.fetch")
end

---@param client vim.lsp.Client
---@param bufnr integer
function M.attach(client, bufnr)
  if client:supports_method(METHOD, bufnr) then
    local group = vim.api.nvim_create_augroup("composer", { clear = false })
    vim.api.nvim_clear_autocmds({ group = group, buffer = bufnr })
    source().attach(client, group, bufnr)
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
function M.accept(part)
  if M.remaining() then
    source().accept(vim.api.nvim_get_current_buf(), part)
  end
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

function M.dismiss()
  source().dismiss(vim.api.nvim_get_current_buf())
end

return M
