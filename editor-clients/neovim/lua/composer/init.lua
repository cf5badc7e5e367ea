--- What users call. Everything else is loaded when it is first needed.
local M = {}

---@param options? composer.Options
function M.setup(options)
  if vim.fn.has("nvim-0.11") == 0 then
    vim.notify("Composer needs Neovim 0.11 or newer", vim.log.levels.ERROR)
    return
  end
  require("composer.config").setup(options)
  require("composer.server").setup()
end

--- Accepts the whole suggestion.
---@return boolean accepted whether there was one
function M.accept()
  return require("composer.ghost").accept("all")
end

--- Accepts the suggestion's next word.
---@return boolean accepted
function M.accept_word()
  return require("composer.ghost").accept("word")
end

--- Accepts the suggestion's next line.
---@return boolean accepted
function M.accept_line()
  return require("composer.ghost").accept("line")
end

--- Shows the next suggestion; with none shown, asks for one even where automatic ones are off.
function M.next()
  require("composer.ghost").next()
end

--- Hides the suggestion until the text changes.
---@return boolean dismissed
function M.dismiss()
  return require("composer.ghost").dismiss()
end

--- Whether a suggestion is shown at the cursor.
---@return boolean
function M.is_shown()
  return require("composer.ghost").remaining() ~= nil
end

--- One word or two for a statusline; empty while the language server is not running.
---@return string
function M.status()
  return require("composer.status").line()
end

return M
