--- A suggestion at a place in a buffer: what is left of it after typing, and putting it into the text.
local M = {}

---@class composer.Suggestion Rows and columns count from 0, columns in bytes.
---@field bufnr integer
---@field row integer
---@field col integer where its text begins, at or before the cursor
---@field text string
---@field num_replaced integer bytes after the cursor that its end replaces
---@field tail string what stood after the cursor on its line when it came
---@field command? lsp.Command what the language server is told when it was accepted
---@field num_accepted? integer UTF-16 units of its text that were accepted by parts

---@alias composer.Part "all"|"word"|"line"

---@param bufnr integer
---@param row integer
---@return string
local function line_at(bufnr, row)
  return vim.api.nvim_buf_get_lines(bufnr, row, row + 1, false)[1] or ""
end

--- The cursor's row and column when the buffer is the one being edited.
---@param bufnr integer
---@return integer? row
---@return integer col
local function cursor_in(bufnr)
  if vim.api.nvim_get_current_buf() ~= bufnr then
    return nil, 0
  end
  local cursor = vim.api.nvim_win_get_cursor(0)
  return cursor[1] - 1, cursor[2]
end

--- Where the cursor is and in which text: what a suggestion is asked for.
---@param bufnr integer
---@return string
function M.place(bufnr)
  local row, col = cursor_in(bufnr)
  return table.concat({ vim.api.nvim_buf_get_changedtick(bufnr), row or "", col }, ":")
end

--- Whether a macro is recorded or runs. What is accepted is not a part of it and would not be there
--- again when it runs, so there are no suggestions then.
---@return boolean
function M.in_macro()
  return vim.fn.reg_recording() ~= "" or vim.fn.reg_executing() ~= ""
end

--- Has a suggestion asked for when the user is typing already.
---@param bufnr integer
function M.wake(bufnr)
  if vim.api.nvim_get_current_buf() == bufnr and vim.api.nvim_get_mode().mode:find("^i") then
    vim.api.nvim_exec_autocmds("CursorMovedI", { buffer = bufnr, modeline = false })
  end
end

---@param bufnr integer
---@param text string
---@param row integer
---@param col integer
---@param end_col integer
---@return composer.Suggestion?
function M.new(bufnr, text, row, col, end_col)
  local cursor_row, cursor_col = cursor_in(bufnr)
  if cursor_row ~= row or cursor_col < col or text == "" or M.in_macro() then
    return nil
  end
  return {
    bufnr = bufnr,
    row = row,
    col = col,
    text = text,
    num_replaced = math.max(0, end_col - cursor_col),
    tail = line_at(bufnr, row):sub(cursor_col + 1),
  }
end

---@param client vim.lsp.Client
---@param bufnr integer
---@param item table lsp.InlineCompletionItem
---@return composer.Suggestion?
local function of_item(client, bufnr, item)
  local cursor = vim.api.nvim_win_get_cursor(0)
  local row, col, end_col = cursor[1] - 1, cursor[2], cursor[2]
  if item.range then
    row = item.range.start.line
    local line, encoding = line_at(bufnr, row), client.offset_encoding
    col = vim.str_byteindex(line, encoding, item.range.start.character, false)
    end_col = vim.str_byteindex(line, encoding, item.range["end"].character, false)
  end
  local suggestion = M.new(bufnr, item.insertText, row, col, end_col)
  if suggestion then
    suggestion.command = item.command
  end
  return suggestion
end

--- The language server's suggestions for the text as it is now.
---@param client vim.lsp.Client
---@param bufnr integer
---@param result table lsp.InlineCompletionList or its items
---@return composer.Suggestion[]
function M.of_result(client, bufnr, result)
  local found = {}
  for _, item in ipairs(result.items or result) do
    found[#found + 1] = of_item(client, bufnr, item)
  end
  return found
end

--- What is left of it at the cursor; nil once it does not belong there.
---@param suggestion? composer.Suggestion
---@return string?
function M.remaining(suggestion)
  if not suggestion or M.in_macro() then
    return nil
  end
  local row, col = cursor_in(suggestion.bufnr)
  if row ~= suggestion.row or col < suggestion.col then
    return nil
  end
  local line = line_at(suggestion.bufnr, row)
  local typed = line:sub(suggestion.col + 1, col)
  if line:sub(col + 1) ~= suggestion.tail or not vim.startswith(suggestion.text, typed) then
    return nil
  end
  local rest = suggestion.text:sub(#typed + 1)
  return rest ~= "" and rest or nil
end

---@param text string
---@param part composer.Part
---@return string
function M.first(text, part)
  if part == "word" then
    return vim.fn.matchstr(text, [[^\_s*\%(\k\+\|\%(\k\@!\n\@!\S\)\+\)]])
  elseif part == "line" then
    return text:match("^\n*[^\n]*")
  end
  return text
end

--- Tells the language server that a suggestion was accepted, or what of it.
---@param suggestion composer.Suggestion
---@param num_accepted? integer UTF-16 units so far; nil: all
local function tell_accepted(suggestion, num_accepted)
  local command = suggestion.command
  local client = command and vim.lsp.get_clients({ bufnr = suggestion.bufnr, name = "composer-lsp" })[1]
  if not command or not client then
    return
  end
  local arguments = vim.list_extend({}, command.arguments or {})
  if num_accepted then
    table.insert(arguments, { acceptedLength = num_accepted })
  end
  -- The buffer's number: the accepted text goes to the language server first. Nobody waits for it.
  local params = { command = command.command, arguments = arguments }
  client:request("workspace/executeCommand", params, function() end, suggestion.bufnr)
end

--- Puts a part of what is left into the text, with the cursor behind it.
---@param suggestion composer.Suggestion
---@param part composer.Part
---@return composer.Suggestion? rest
function M.insert(suggestion, part)
  local rest = M.remaining(suggestion)
  if not rest then
    return nil
  end
  local taken = M.first(rest, part)
  if taken == "" then
    taken = rest
  end
  local bufnr, num_replaced = suggestion.bufnr, suggestion.num_replaced
  local row, col = unpack(vim.api.nvim_win_get_cursor(0))
  if taken == rest then
    vim.api.nvim_buf_set_text(bufnr, row - 1, col, row - 1, col + num_replaced, {})
  end
  -- Pasted, so that it belongs to what "." repeats.
  vim.api.nvim_paste(taken, false, -1)
  row, col = unpack(vim.api.nvim_win_get_cursor(0))
  if taken == rest then
    tell_accepted(suggestion)
    return nil
  end
  local left = M.new(bufnr, rest:sub(#taken + 1), row - 1, col, col + num_replaced)
  if left then
    left.command = suggestion.command
    left.num_accepted = (suggestion.num_accepted or 0) + vim.str_utfindex(taken, "utf-16")
    tell_accepted(left, left.num_accepted)
  end
  return left
end

return M
