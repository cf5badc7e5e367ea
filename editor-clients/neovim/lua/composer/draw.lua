--- Ghost text by extmarks.
local M = {}

local choices = require("composer.choices")

local namespace = vim.api.nvim_create_namespace("composer")

---@param bufnr integer
function M.clear(bufnr)
  if vim.api.nvim_buf_is_valid(bufnr) then
    vim.api.nvim_buf_clear_namespace(bufnr, namespace, 0, -1)
  end
end

--- Shows what is left of the current one at the cursor, in place of what was shown before.
---@param shown composer.Choices
function M.show(shown)
  local suggestion, text = choices.current(shown), choices.remaining(shown)
  if not suggestion or not text then
    return
  end
  -- What it replaces at its end mostly ends it too: that is on the screen already.
  local replaced = suggestion.tail:sub(1, suggestion.num_replaced)
  local position = "inline"
  if replaced ~= "" and vim.endswith(text, replaced) then
    text = text:sub(1, -#replaced - 1)
  elseif replaced ~= "" then
    position = "overlay"
  end
  local lines = vim.split(text, "\n", { plain = true })
  local chunks = vim.tbl_map(function(line)
    return { { line:gsub("\t", (" "):rep(vim.bo[suggestion.bufnr].tabstop)), "ComposerSuggestion" } }
  end, lines)
  local hint = choices.hint(shown)
  if hint then
    table.insert(chunks[#chunks], { hint, "ComposerHint" })
  end
  local cursor = vim.api.nvim_win_get_cursor(0)
  vim.api.nvim_buf_set_extmark(suggestion.bufnr, namespace, cursor[1] - 1, cursor[2], {
    id = 1,
    virt_text = chunks[1],
    virt_lines = #chunks > 1 and vim.list_slice(chunks, 2) or nil,
    virt_text_pos = position,
    hl_mode = "combine",
  })
end

return M
