--- Suggestions for Neovim 0.11: asks after every change in insert mode and shows the answer.
local M = {}

local draw = require("composer.draw")
local suggestion = require("composer.suggestion")

local METHOD = "textDocument/inlineCompletion"
local INVOKED, AUTOMATIC = 1, 2

---@class composer.fetch.State
---@field suggestions composer.Suggestion[]
---@field index integer
---@field cancel? fun() stops the request that is on its way
---@field place? string where and on what text the last request was made

---@type table<integer, composer.fetch.State>
local states = {}

---@param bufnr integer
---@return composer.Suggestion?
function M.current(bufnr)
  local state = states[bufnr]
  return state and state.suggestions[state.index]
end

---@param bufnr integer
local function refresh(bufnr)
  local current = M.current(bufnr)
  local rest = suggestion.remaining(current)
  if current and rest then
    draw.show(current, rest)
  else
    states[bufnr].suggestions = {}
    draw.clear(bufnr)
  end
end

---@param client vim.lsp.Client
---@param bufnr integer
---@param item table lsp.InlineCompletionItem
---@return composer.Suggestion?
local function from_item(client, bufnr, item)
  local cursor = vim.api.nvim_win_get_cursor(0)
  local row, col, end_col = cursor[1] - 1, cursor[2], cursor[2]
  if item.range then
    row = item.range.start.line
    local line = vim.api.nvim_buf_get_lines(bufnr, row, row + 1, false)[1] or ""
    local encoding = client.offset_encoding
    col = vim.str_byteindex(line, encoding, item.range.start.character, false)
    end_col = vim.str_byteindex(line, encoding, item.range["end"].character, false)
  end
  return suggestion.new(bufnr, item.insertText, row, col, end_col)
end

---@param client vim.lsp.Client
---@param bufnr integer
---@param result? table lsp.InlineCompletionList, its items, or nil when a newer request decides
local function receive(client, bufnr, result)
  if not result or not vim.api.nvim_get_mode().mode:find("^i") then
    return
  end
  local found = {}
  for _, item in ipairs(result.items or result) do
    found[#found + 1] = from_item(client, bufnr, item)
  end
  states[bufnr].suggestions, states[bufnr].index = found, 1
  refresh(bufnr)
end

---@param bufnr integer
---@param kind integer
local function request(bufnr, kind)
  local state = states[bufnr]
  local client = vim.lsp.get_clients({ bufnr = bufnr, name = "composer-lsp", method = METHOD })[1]
  local place = suggestion.place(bufnr)
  if not client or (kind == AUTOMATIC and state.place == place) then
    return
  end
  if state.cancel then
    state.cancel()
  end
  state.place = place
  local params = vim.lsp.util.make_position_params(0, client.offset_encoding)
  params.context = { triggerKind = kind }
  -- The buffer's number, not 0: changes that wait to be sent go before the request only then.
  local sent, id = client:request(METHOD, params, function(err, result)
    if err or states[bufnr] ~= state or state.place ~= place then
      return
    end
    state.cancel = nil
    if suggestion.place(bufnr) == place then
      receive(client, bufnr, result)
    end
  end, bufnr)
  state.cancel = sent and id and function()
    client:cancel_request(id)
  end or nil
end

---@param bufnr integer
local function reset(bufnr)
  local state = states[bufnr]
  if state.cancel then
    state.cancel()
  end
  states[bufnr] = { suggestions = {}, index = 1 }
  draw.clear(bufnr)
end

---@param client vim.lsp.Client
---@param group integer of autocommands
---@param bufnr integer
function M.attach(client, group, bufnr)
  states[bufnr] = { suggestions = {}, index = 1 }
  local function on(events, callback)
    vim.api.nvim_create_autocmd(events, { group = group, buffer = bufnr, callback = callback })
  end
  on({ "InsertEnter", "TextChangedI", "TextChangedP", "CursorMovedI" }, function()
    refresh(bufnr)
    request(bufnr, AUTOMATIC)
  end)
  on({ "InsertLeave", "BufLeave", "LspDetach" }, function()
    reset(bufnr)
  end)
  on("BufUnload", function()
    reset(bufnr)
    states[bufnr] = nil
  end)
  -- Once the client is attached.
  vim.schedule(function()
    if states[bufnr] and vim.lsp.buf_is_attached(bufnr, client.id) then
      suggestion.wake(bufnr)
    end
  end)
end

---@param bufnr integer
---@param part composer.Part
function M.accept(bufnr, part)
  local state = states[bufnr]
  local rest = suggestion.insert(state.suggestions[state.index], part)
  state.suggestions, state.index = { rest }, 1
  refresh(bufnr)
end

---@param bufnr integer
function M.next(bufnr)
  local state = states[bufnr]
  if not state then
    return
  elseif #state.suggestions > 1 then
    state.index = state.index % #state.suggestions + 1
    refresh(bufnr)
  elseif #state.suggestions == 0 then
    request(bufnr, INVOKED)
  end
end

---@param bufnr integer
function M.dismiss(bufnr)
  if not states[bufnr] then
    return
  end
  reset(bufnr)
  states[bufnr].place = suggestion.place(bufnr)
end

return M
