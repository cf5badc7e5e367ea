--- Suggestions for Neovim 0.11: asks after every change in insert mode and shows the answer.
local M = {}

local choices = require("composer.choices")
local draw = require("composer.draw")
local suggestion = require("composer.suggestion")

local METHOD = "textDocument/inlineCompletion"
local INVOKED, AUTOMATIC = 1, 2

---@class composer.fetch.State
---@field choices composer.Choices
---@field cancel? fun() stops the request that is on its way
---@field place? string where and on what text the last request was made

---@type table<integer, composer.fetch.State>
local states = {}

---@param bufnr integer
---@return composer.Suggestion?
function M.current(bufnr)
  local state = states[bufnr]
  return state and choices.current(state.choices)
end

---@param bufnr integer
local function refresh(bufnr)
  local state = states[bufnr]
  if choices.remaining(state.choices) then
    draw.show(state.choices)
  else
    state.choices = choices.new({})
    draw.clear(bufnr)
  end
end

---@param client vim.lsp.Client
---@param bufnr integer
---@param kind integer
---@param result? table lsp.InlineCompletionList, its items, or nil when a newer request decides
local function receive(client, bufnr, kind, result)
  if not result or not vim.api.nvim_get_mode().mode:find("^i") then
    return
  end
  local state = states[bufnr]
  local found = suggestion.of_result(client, bufnr, result)
  if kind == INVOKED then
    state.choices = choices.beside(found, M.current(bufnr))
  else
    state.choices = choices.new(found)
  end
  refresh(bufnr)
end

---@param bufnr integer
---@param kind integer
local function request(bufnr, kind)
  local state = states[bufnr]
  local client = vim.lsp.get_clients({ bufnr = bufnr, name = "composer-lsp", method = METHOD })[1]
  local place = suggestion.place(bufnr)
  local is_idle = kind == AUTOMATIC and (state.place == place or choices.is_kept(state.choices))
  if not client or is_idle or suggestion.in_macro() then
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
      receive(client, bufnr, kind, result)
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
  states[bufnr] = { choices = choices.new({}) }
  draw.clear(bufnr)
end

---@param client vim.lsp.Client
---@param group integer of autocommands
---@param bufnr integer
function M.attach(client, group, bufnr)
  states[bufnr] = { choices = choices.new({}) }
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
    vim.api.nvim_clear_autocmds({ group = group, buffer = bufnr })
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
  state.choices = choices.insert(state.choices, part)
  refresh(bufnr)
end

---@param bufnr integer
function M.next(bufnr)
  local state = states[bufnr]
  if not state then
    return
  elseif choices.is_complete(state.choices) then
    choices.advance(state.choices)
    refresh(bufnr)
  else
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
