--- What users call. Everything else is loaded when it is first needed.
local M = {}

--- Does something with the suggestion once text may be changed: mappings with `expr` may call this.
---@param action fun()
---@return boolean is_shown whether there is a suggestion to do it with
local function soon(action)
  local is_shown = M.is_shown()
  if is_shown then
    vim.schedule(action)
  end
  return is_shown
end

--- Sets up the plugin: options, keys and the language server for the buffers that want it.
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
  return soon(function()
    require("composer.ghost").accept("all")
  end)
end

--- Accepts the suggestion's next word.
---@return boolean accepted whether there was one
function M.accept_word()
  return soon(function()
    require("composer.ghost").accept("word")
  end)
end

--- Accepts the suggestion up to the end of its line.
---@return boolean accepted whether there was one
function M.accept_line()
  return soon(function()
    require("composer.ghost").accept("line")
  end)
end

--- Shows the next suggestion; with none shown, asks for one even where automatic ones are off.
function M.next()
  vim.schedule(function()
    require("composer.ghost").next()
  end)
end

--- Hides the suggestion until the text changes.
---@return boolean dismissed whether there was one
function M.dismiss()
  return soon(function()
    require("composer.ghost").dismiss()
  end)
end

--- Jumps to the next edit, or takes it where the cursor is there already.
---@return boolean is_shown whether there is one
function M.next_edit()
  local next_edit = require("composer.next_edit")
  local is_shown = next_edit.current() ~= nil
  if is_shown then
    vim.schedule(next_edit.run)
  end
  return is_shown
end

--- Puts the next edit away.
---@return boolean dismissed whether there was one
function M.dismiss_next_edit()
  local next_edit = require("composer.next_edit")
  local is_shown = next_edit.current() ~= nil
  if is_shown then
    vim.schedule(next_edit.dismiss)
  end
  return is_shown
end

--- Whether a suggestion is shown at the cursor.
---@return boolean
function M.is_shown()
  return require("composer.ghost").remaining() ~= nil
end

--- A few words for a statusline; empty while the language server is not running.
---@return string
function M.status()
  return require("composer.status").line()
end

return M
