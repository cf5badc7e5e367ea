--- Suggestions for Neovim 0.12, which fetches and shows them itself. It keeps what it shows to itself
--- and shows it for a while after the text went another way; what is on the screen tells both.
local M = {}

local choices = require("composer.choices")
local draw = require("composer.draw")
local suggestion = require("composer.suggestion")

local METHOD = "textDocument/inlineCompletion"
local INVOKED = 1
local TAKE_LIMIT_MS = 1000

local inline = vim.lsp.inline_completion
local namespace = vim.api.nvim_create_namespace("nvim.lsp.inline_completion")

---@class composer.builtin.State
---@field shown? composer.Suggestion what Neovim shows
---@field own composer.Choices what we show: the rest after accepting a part, or explicit answers
---@field asked_at? string the place of Neovim's last request
---@field dismissed_at? string the place that nothing is wanted at

---@type table<integer, composer.builtin.State>
local states = {}

---@param bufnr integer
---@return composer.Suggestion?
function M.current(bufnr)
  local state = states[bufnr]
  return state and (choices.current(state.own) or state.shown)
end

---@param chunks [string, string][]
---@return string
local function joined(chunks)
  return vim
    .iter(chunks)
    :map(function(chunk)
      return chunk[1]
    end)
    :join("")
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
  local lines = vim.tbl_map(joined, { details.virt_text or {}, unpack(details.virt_lines or {}) })
  local col = vim.api.nvim_win_get_cursor(0)[2]
  -- Text after the cursor that the suggestion repeats is not shown twice.
  local repeated = vim.api.nvim_get_current_line():sub(col + 1, mark[3])
  return suggestion.new(bufnr, repeated .. table.concat(lines, "\n"), mark[2], col, col)
end

---@param bufnr integer
local function drop_own(bufnr)
  states[bufnr].own = choices.new({})
  draw.clear(bufnr)
end

---@param bufnr integer
local function drop_shown(bufnr)
  states[bufnr].shown = nil
  vim.api.nvim_buf_clear_namespace(bufnr, namespace, 0, -1)
end

---@param bufnr integer
---@param own composer.Choices
local function show_own(bufnr, own)
  if choices.remaining(own) then
    states[bufnr].own = own
    drop_shown(bufnr)
    draw.show(own)
  else
    drop_own(bufnr)
  end
end

---@param bufnr integer
local function refresh(bufnr)
  local state = states[bufnr]
  show_own(bufnr, state.own)
  if not suggestion.remaining(state.shown) then
    drop_shown(bufnr)
  end
  if state.dismissed_at ~= suggestion.place(bufnr) then
    state.dismissed_at = nil
  end
end

--- What Neovim shows changes when an answer came: take that over. An answer to a question about
--- another place is shown all the same, cut to fit; the question about this place is on its way.
---@param bufnr integer
local function answered(bufnr)
  vim.schedule(function()
    local state = states[bufnr]
    if not state or not vim.api.nvim_buf_is_loaded(bufnr) then
      return
    end
    local seen = read(bufnr)
    local place = suggestion.place(bufnr)
    if choices.is_kept(state.own) or state.dismissed_at == place then
      drop_shown(bufnr)
    elseif seen and state.asked_at == place then
      drop_own(bufnr)
      state.shown = seen
    elseif not seen or seen.text ~= suggestion.remaining(state.shown) then
      drop_shown(bufnr)
    end
  end)
end

---@param bufnr integer
---@param event table
local function on_request(bufnr, event)
  local request = event.data.request
  if request.method ~= METHOD then
    return
  elseif request.type == "pending" then
    states[bufnr].asked_at = suggestion.place(bufnr)
  elseif request.type == "complete" then
    answered(bufnr)
  end
end

---@param group integer
---@param bufnr integer
local function watch(group, bufnr)
  local function on(events, callback)
    vim.api.nvim_create_autocmd(events, { group = group, buffer = bufnr, callback = callback })
  end
  on({ "TextChangedI", "TextChangedP", "CursorMovedI" }, function()
    refresh(bufnr)
  end)
  on("LspRequest", function(event)
    on_request(bufnr, event)
  end)
  on({ "InsertLeave", "BufLeave", "LspDetach" }, function()
    drop_shown(bufnr)
    drop_own(bufnr)
  end)
  on("BufUnload", function()
    states[bufnr] = nil
    vim.api.nvim_clear_autocmds({ group = group, buffer = bufnr })
  end)
end

---@param client vim.lsp.Client
---@param group integer of autocommands
---@param bufnr integer
function M.attach(client, group, bufnr)
  states[bufnr] = { own = choices.new({}) }
  -- Behind what Neovim itself schedules when a client attaches: its autocommands have to run before
  -- ours. Not for our client alone, since Neovim then forgets to detach one that died.
  vim.schedule(vim.schedule_wrap(function()
    if states[bufnr] and vim.lsp.buf_is_attached(bufnr, client.id) then
      inline.enable(true, { bufnr = bufnr })
      watch(group, bufnr)
      suggestion.wake(bufnr)
    end
  end))
end

---@param bufnr integer
---@param text string|lsp.StringValue
---@param range? vim.Range
---@param command? lsp.Command
---@return composer.Suggestion?
local function from_shown(bufnr, text, range, command)
  -- Another server's snippet is taken as its text was on the screen.
  if not range or type(text) ~= "string" then
    return states[bufnr].shown
  end
  local row, col, _, end_col = range:to_extmark()
  -- The range is of the text before anything was typed through.
  local shown = states[bufnr].shown
  local num_typed = shown and vim.api.nvim_win_get_cursor(0)[2] - shown.col or 0
  local taken = suggestion.new(bufnr, text, row, col, end_col + num_typed)
  if taken then
    taken.command = command
  end
  return taken
end

--- Takes the item that Neovim shows away from it. Neovim hands it over when it gets round to it, and
--- keys that were typed behind this one must not overtake.
---@param bufnr integer
---@param on_item fun(item: vim.lsp.inline_completion.Item)
local function take(bufnr, on_item)
  local is_done = false
  local is_pending = inline.get({
    bufnr = bufnr,
    on_accept = function(item)
      is_done = true
      on_item(item)
    end,
  })
  if is_pending then
    vim.wait(TAKE_LIMIT_MS, function()
      return is_done
    end, 1)
  end
end

---@param bufnr integer
---@param part composer.Part
function M.accept(bufnr, part)
  local own = states[bufnr].own
  if choices.remaining(own) then
    show_own(bufnr, choices.insert(own, part))
    return
  end
  take(bufnr, function(item)
    local accepted = from_shown(bufnr, item.insert_text, item.range, item.command)
    states[bufnr].shown = nil
    show_own(bufnr, choices.insert(choices.new({ accepted }), part))
  end)
end

---@param client vim.lsp.Client
---@param bufnr integer
---@param result table lsp.InlineCompletionList or its items
local function receive(client, bufnr, result)
  if not vim.api.nvim_get_mode().mode:find("^i") then
    return
  end
  local found = suggestion.of_result(client, bufnr, result)
  if #found > 0 then
    show_own(bufnr, choices.beside(found, M.current(bufnr)))
  end
end

--- Neovim has no way to ask explicitly, so this asks and shows the answers itself.
---@param bufnr integer
---@param is_last boolean whether not to ask again when Neovim's own request got in between
local function invoke(bufnr, is_last)
  local client = vim.lsp.get_clients({ bufnr = bufnr, name = "composer-lsp", method = METHOD })[1]
  if not client or suggestion.in_macro() then
    return
  end
  local state, place = states[bufnr], suggestion.place(bufnr)
  local function is_due()
    return states[bufnr] == state and suggestion.place(bufnr) == place
  end
  local params = vim.lsp.util.make_position_params(0, client.offset_encoding)
  params.context = { triggerKind = INVOKED }
  -- The buffer's number, not 0: changes that wait to be sent go before the request only then.
  client:request(METHOD, params, function(err, result)
    if err or not is_due() then
      return
    elseif not result then
      return is_last or invoke(bufnr, true)
    end
    -- After `answered`, which sees nothing on the screen.
    vim.schedule(function()
      if is_due() then
        receive(client, bufnr, result)
      end
    end)
  end, bufnr)
end

---@param bufnr integer
function M.next(bufnr)
  local state = states[bufnr]
  if not state then
    return
  elseif choices.is_complete(state.own) then
    choices.advance(state.own)
    show_own(bufnr, state.own)
  else
    invoke(bufnr, false)
  end
end

---@param bufnr integer
function M.dismiss(bufnr)
  if not states[bufnr] then
    return
  end
  drop_shown(bufnr)
  drop_own(bufnr)
  states[bufnr].dismissed_at = suggestion.place(bufnr)
  take(bufnr, function() end)
end

return M
