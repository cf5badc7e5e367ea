--- Suggestions for Neovim 0.12, which fetches and shows them itself. It keeps what it shows to itself
--- and shows it for a while after the text went another way; what is on the screen tells both.
local M = {}

local draw = require("composer.draw")
local suggestion = require("composer.suggestion")

local METHOD = "textDocument/inlineCompletion"
local INVOKED = 1

local inline = vim.lsp.inline_completion
local namespace = vim.api.nvim_create_namespace("nvim.lsp.inline_completion")

---@class composer.builtin.State
---@field shown? composer.Suggestion what Neovim shows
---@field own? composer.Suggestion what we show: the rest after accepting a part, or an explicit answer

---@type table<integer, composer.builtin.State>
local states = {}

---@param bufnr integer
---@return composer.Suggestion?
function M.current(bufnr)
  local state = states[bufnr]
  return state and (state.own or state.shown)
end

---@param chunks [string, string][]
---@return string
local function joined(chunks)
  return vim.iter(chunks):map(function(chunk)
    return chunk[1]
  end):join("")
end

--- Reads the suggestion off the screen.
---@param bufnr integer
---@return composer.Suggestion?
local function read(bufnr)
  local mark = vim.api.nvim_buf_get_extmarks(bufnr, namespace, 0, -1, { details = true })[1]
  if not mark or vim.api.nvim_get_current_buf() ~= bufnr then
    return nil
  end
  local details = mark[4]
  local lines = vim.tbl_map(joined, { details.virt_text, unpack(details.virt_lines or {}) })
  local col = vim.api.nvim_win_get_cursor(0)[2]
  -- Text after the cursor that the suggestion repeats is not shown twice.
  local repeated = vim.api.nvim_get_current_line():sub(col + 1, mark[3])
  return suggestion.new(bufnr, repeated .. table.concat(lines, "\n"), mark[2], col, col)
end

---@param bufnr integer
local function drop_own(bufnr)
  states[bufnr].own = nil
  draw.clear(bufnr)
end

---@param bufnr integer
---@param own? composer.Suggestion
local function show_own(bufnr, own)
  local rest = suggestion.remaining(own)
  if own and rest then
    states[bufnr].own = own
    vim.api.nvim_buf_clear_namespace(bufnr, namespace, 0, -1)
    draw.show(own, rest)
  else
    drop_own(bufnr)
  end
end

---@param bufnr integer
local function refresh(bufnr)
  local state = states[bufnr]
  if state.own then
    show_own(bufnr, state.own)
  elseif state.shown and not suggestion.remaining(state.shown) then
    state.shown = nil
    vim.api.nvim_buf_clear_namespace(bufnr, namespace, 0, -1)
  end
end

--- What Neovim shows changes when an answer came: take that over.
---@param bufnr integer
local function answered(bufnr)
  vim.schedule(function()
    if not states[bufnr] or not vim.api.nvim_buf_is_valid(bufnr) then
      return
    end
    local shown = read(bufnr)
    if shown then
      drop_own(bufnr)
    end
    states[bufnr].shown = shown
  end)
end

---@param client vim.lsp.Client
---@param bufnr integer
function M.attach(client, bufnr)
  states[bufnr] = {}
  local group = vim.api.nvim_create_augroup("composer.builtin." .. bufnr, {})
  local function on(events, callback)
    vim.api.nvim_create_autocmd(events, { group = group, buffer = bufnr, callback = callback })
  end
  on({ "TextChangedI", "TextChangedP", "CursorMovedI" }, function()
    refresh(bufnr)
  end)
  on("LspRequest", function(event)
    local request = event.data.request
    if request.method == METHOD and request.type == "complete" then
      answered(bufnr)
    end
  end)
  on("InsertLeave", function()
    states[bufnr].shown = nil
    drop_own(bufnr)
  end)
  on("BufUnload", function()
    states[bufnr] = nil
    vim.api.nvim_del_augroup_by_id(group)
  end)
  inline.enable(true, { bufnr = bufnr })
end

---@param bufnr integer
---@param text string
---@param range? vim.Range
---@return composer.Suggestion?
local function from_item(bufnr, text, range)
  if not range then
    return states[bufnr].shown
  end
  local row, col, _, end_col = range:to_extmark()
  -- The range is of the text before anything was typed through.
  local shown = states[bufnr].shown
  local num_typed = shown and vim.api.nvim_win_get_cursor(0)[2] - shown.col or 0
  return suggestion.new(bufnr, text, row, col, end_col + num_typed)
end

---@param bufnr integer
---@param part composer.Part
function M.accept(bufnr, part)
  local own = states[bufnr].own
  if own then
    show_own(bufnr, suggestion.insert(own, part))
    return
  end
  inline.get({
    bufnr = bufnr,
    on_accept = function(item)
      local accepted = from_item(bufnr, item.insert_text, item.range)
      states[bufnr].shown = nil
      show_own(bufnr, accepted and suggestion.insert(accepted, part))
    end,
  })
end

--- Neovim has no way to ask explicitly, so this asks and shows the answer itself.
---@param bufnr integer
local function invoke(bufnr)
  local client = vim.lsp.get_clients({ bufnr = bufnr, name = "composer-lsp", method = METHOD })[1]
  if not client then
    return
  end
  local tick, cursor = vim.api.nvim_buf_get_changedtick(bufnr), vim.api.nvim_win_get_cursor(0)
  local params = vim.lsp.util.make_position_params(0, client.offset_encoding)
  params.context = { triggerKind = INVOKED }
  client:request(METHOD, params, function(err, result)
    local is_current = vim.api.nvim_get_current_buf() == bufnr
      and vim.api.nvim_buf_get_changedtick(bufnr) == tick
      and vim.deep_equal(vim.api.nvim_win_get_cursor(0), cursor)
    local item = not err and result and (result.items or result)[1]
    if is_current and item then
      local range = item.range and vim.range.lsp(bufnr, item.range, client.offset_encoding)
      vim.schedule(function()
        show_own(bufnr, from_item(bufnr, item.insertText, range))
      end)
    end
  end, bufnr)
end

---@param bufnr integer
function M.next(bufnr)
  local state = states[bufnr]
  if not state then
    return
  elseif suggestion.remaining(state.shown) then
    inline.select({ bufnr = bufnr })
    answered(bufnr)
  else
    invoke(bufnr)
  end
end

---@param bufnr integer
function M.dismiss(bufnr)
  if not states[bufnr] then
    return
  end
  states[bufnr].shown = nil
  drop_own(bufnr)
  inline.get({
    bufnr = bufnr,
    on_accept = function() end,
  })
end

return M
