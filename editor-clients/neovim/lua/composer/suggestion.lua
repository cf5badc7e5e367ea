--- A suggestion at a place in a buffer: what is left of it after typing, and putting it into the text.
local M = {}

---@class composer.Suggestion Rows and columns count from 0, columns in bytes.
---@field bufnr integer
---@field row integer
---@field col integer where its text begins, at or before the cursor
---@field text string
---@field num_replaced integer bytes after the cursor that its end replaces
---@field tail string what stood after the cursor on its line when it came

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
  if cursor_row ~= row or cursor_col < col or text == "" then
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

--- What is left of it at the cursor; nil once it does not belong there.
---@param suggestion? composer.Suggestion
---@return string?
function M.remaining(suggestion)
  if not suggestion then
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
    return vim.fn.matchstr(text, [[^\_s*\%(\k\+\|\%(\k\@!\S\)\+\)]])
  elseif part == "line" then
    return text:match("^\n*[^\n]*")
  end
  return text
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
  local cursor = vim.api.nvim_win_get_cursor(0)
  local row, col = cursor[1] - 1, cursor[2]
  local lines = vim.split(taken, "\n", { plain = true })
  local end_col = taken == rest and col + num_replaced or col
  vim.api.nvim_buf_set_text(bufnr, row, col, row, end_col, lines)
  row = row + #lines - 1
  col = #lines[#lines] + (#lines == 1 and col or 0)
  vim.api.nvim_win_set_cursor(0, { row + 1, col })
  return M.new(bufnr, rest:sub(#taken + 1), row, col, col + num_replaced)
end

return M
