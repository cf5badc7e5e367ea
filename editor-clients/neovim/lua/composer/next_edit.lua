--- The next edit: where to change something because of what was just changed. It is shown at its place
--- and by a hint at the cursor; a key jumps there, and the same key takes it.
local M = {}

local server = require("composer.server")
local suggestion = require("composer.suggestion")

local METHOD = "composer/nextEdit"
local INVOKED, AUTOMATIC = 1, 2
local PAUSE_MS = { typing = 400, changed = 100, left = 0 }

local namespace = vim.api.nvim_create_namespace("composer.next_edit")
local LINE_END = "\r?\n"

---@class composer.NextEdit
---@field id string
---@field title string
---@field uri string
---@field bufnr integer -1: the file is not open
---@field version? integer of the buffer
---@field row integer rows and columns count from 0, columns in bytes
---@field col integer
---@field end_row integer
---@field end_col integer
---@field old string
---@field new string
---@field command table

---@type { shown?: composer.NextEdit, cancel?: fun(), timer?: uv.uv_timer_t, jumped?: string }
local state = {}

---@param bufnr integer
---@return integer?
local function version_of(bufnr)
  return vim.lsp.util.buf_versions[bufnr]
end

---@param bufnr integer
---@return vim.lsp.Client?
local function client_of(bufnr)
  return vim.lsp.get_clients({ bufnr = bufnr, name = server.NAME })[1]
end

local function clear()
  for _, bufnr in ipairs(vim.api.nvim_list_bufs()) do
    if vim.api.nvim_buf_is_loaded(bufnr) then
      vim.api.nvim_buf_clear_namespace(bufnr, namespace, 0, -1)
    end
  end
end

local function drop()
  state.shown = nil
  clear()
end

--- The next edit that is shown; nil once its text is another one.
---@return composer.NextEdit?
function M.current()
  local shown = state.shown
  if shown and shown.bufnr ~= -1 then
    local is_there = vim.api.nvim_buf_is_loaded(shown.bufnr) and version_of(shown.bufnr) == shown.version
    return is_there and shown or nil
  end
  return shown
end

---@param edit composer.NextEdit
---@return boolean
local function is_at(edit)
  return edit.bufnr == vim.api.nvim_get_current_buf() and vim.api.nvim_win_get_cursor(0)[1] - 1 == edit.row
end

--- Bytes that two texts begin and end with in common, whole characters.
---@param old string
---@param new string
---@return integer head
---@return integer tail
local function common(old, new)
  local most = math.min(#old, #new)
  local head = 0
  while head < most and old:byte(head + 1) == new:byte(head + 1) do
    head = head + 1
  end
  while head > 0 and vim.str_utf_start(old .. " ", head + 1) ~= 0 do
    head = head - 1
  end
  local tail = 0
  while tail < most - head and old:byte(-tail - 1) == new:byte(-tail - 1) do
    tail = tail + 1
  end
  while tail > 0 and vim.str_utf_start(old, #old - tail + 1) ~= 0 do
    tail = tail - 1
  end
  return head, tail
end

---@param edit composer.NextEdit
---@param offset integer in bytes from its start
---@return integer row
---@return integer col
local function place_in(edit, offset)
  local lines = vim.split(edit.old:sub(1, offset), LINE_END)
  local col = #lines[#lines]
  return edit.row + #lines - 1, #lines == 1 and edit.col + col or col
end

---@param edit composer.NextEdit
local function draw_edit(edit)
  local head, tail = common(edit.old, edit.new)
  if edit.old:find("\n") or edit.new:find("\n") then
    head, tail = 0, 0
  end
  local row, col = place_in(edit, head)
  local end_row, end_col = place_in(edit, #edit.old - tail)
  if head + tail < #edit.old then
    vim.api.nvim_buf_set_extmark(edit.bufnr, namespace, row, col, {
      end_row = end_row,
      end_col = end_col,
      hl_group = "ComposerDelete",
      strict = false,
    })
  end
  local lines = vim.split(edit.new:sub(head + 1, #edit.new - tail), LINE_END)
  local chunks = vim.tbl_map(function(line)
    return { { line:gsub("\t", (" "):rep(vim.bo[edit.bufnr].tabstop)), "ComposerInsert" } }
  end, lines)
  vim.api.nvim_buf_set_extmark(edit.bufnr, namespace, end_row, end_col, {
    virt_text = chunks[1],
    virt_text_pos = "inline",
    virt_lines = #chunks > 1 and vim.list_slice(chunks, 2) or nil,
    sign_text = "»",
    sign_hl_group = "ComposerHint",
    strict = false,
  })
end

--- Says at the cursor what the key does, where the edit is elsewhere.
---@param edit composer.NextEdit
local function draw_hint(edit)
  local bufnr = vim.api.nvim_get_current_buf()
  if is_at(edit) or state.jumped or vim.bo[bufnr].buftype ~= "" then
    return
  end
  local key = require("composer.config").options.keys.next_edit or ""
  local name = edit.bufnr == bufnr and "" or vim.fn.fnamemodify(vim.uri_to_fname(edit.uri), ":t") .. " "
  local text = ("  %s: %s, %sline %d"):format(key, edit.title, name, edit.row + 1)
  vim.api.nvim_buf_set_extmark(bufnr, namespace, vim.api.nvim_win_get_cursor(0)[1] - 1, 0, {
    virt_text = { { text, "ComposerHint" } },
    virt_text_pos = "eol",
  })
end

local function draw()
  clear()
  local edit = M.current()
  if not edit then
    state.shown = nil
    return
  end
  if edit.bufnr ~= -1 then
    draw_edit(edit)
  end
  draw_hint(edit)
end

---@param client vim.lsp.Client
---@param result table the answer to `composer/nextEdit`
---@return composer.NextEdit?
local function of_result(client, result)
  local uri, version = result.textDocument.uri, result.textDocument.version
  local first, last = result.range.start, result.range["end"]
  ---@type composer.NextEdit
  local edit = {
    id = result.id,
    title = result.title,
    uri = uri,
    bufnr = -1,
    row = first.line,
    col = 0,
    end_row = last.line,
    end_col = 0,
    old = result.oldText,
    new = result.newText,
    command = result.command,
  }
  if version == nil or version == vim.NIL then
    return edit
  end
  local bufnr = vim.uri_to_bufnr(uri)
  if version_of(bufnr) ~= version then
    return nil -- the text moved on
  end
  local function byte(position)
    local line = vim.api.nvim_buf_get_lines(bufnr, position.line, position.line + 1, false)[1] or ""
    return vim.str_byteindex(line, client.offset_encoding, position.character, false)
  end
  edit.bufnr, edit.version, edit.col, edit.end_col = bufnr, version, byte(first), byte(last)
  return edit
end

---@param client vim.lsp.Client
---@param bufnr integer
---@param kind integer
---@return table
local function params_for(client, bufnr, kind)
  local params = vim.lsp.util.make_position_params(0, client.offset_encoding)
  params.textDocument.version = version_of(bufnr)
  local function as_lsp(each)
    local start = { line = each.lnum, character = each.col }
    local finish = { line = each.end_lnum or each.lnum, character = each.end_col or each.col }
    return { range = { start = start, ["end"] = finish }, severity = each.severity, message = each.message }
  end
  local diagnostics = vim.tbl_map(as_lsp, vim.list_slice(vim.diagnostic.get(bufnr), 1, 50))
  params.context = { triggerKind = kind, diagnostics = diagnostics }
  return params
end

local function stop()
  if state.cancel then
    state.cancel()
    state.cancel = nil
  end
  if state.timer then
    state.timer:stop()
  end
end

---@param bufnr integer
---@param kind integer
local function request(bufnr, kind)
  stop()
  local client = client_of(bufnr)
  if not client or vim.api.nvim_get_current_buf() ~= bufnr or suggestion.in_macro() then
    return
  end
  local version = version_of(bufnr)
  -- The buffer's number, not 0: changes that wait to be sent go before the request only then.
  local sent, id = client:request(METHOD, params_for(client, bufnr, kind), function(err, result)
    state.cancel = nil
    local is_due = vim.api.nvim_get_current_buf() == bufnr and version_of(bufnr) == version
    if err or not is_due then
      return
    end
    state.shown = result and of_result(client, result) or nil
    draw()
    if state.shown then
      client:notify("textDocument/didShowInlineEdit", { item = { command = state.shown.command } })
    elseif kind == INVOKED then
      vim.notify("Composer: there is no next edit")
    end
  end, bufnr)
  state.cancel = sent and id and function()
    client:cancel_request(id)
  end or nil
end

---@param bufnr integer
---@param wait_ms integer
local function request_soon(bufnr, wait_ms)
  stop()
  state.timer = state.timer or assert(vim.uv.new_timer())
  state.timer:start(
    wait_ms,
    0,
    vim.schedule_wrap(function()
      if vim.api.nvim_buf_is_valid(bufnr) then
        request(bufnr, AUTOMATIC)
      end
    end)
  )
end

--- Asks for the next edit, also where that is turned off.
function M.ask()
  request(vim.api.nvim_get_current_buf(), INVOKED)
end

---@param edit composer.NextEdit
local function jump(edit)
  local client = client_of(vim.api.nvim_get_current_buf())
  vim.cmd("normal! m'")
  if edit.bufnr ~= vim.api.nvim_get_current_buf() then
    -- Asked for again there: nothing is known of a file that was not open.
    state.jumped = edit.bufnr == -1 and edit.uri or nil
    local here = { line = edit.row, character = 0 }
    local encoding = client and client.offset_encoding or "utf-16"
    vim.lsp.util.show_document({ uri = edit.uri, range = { start = here, ["end"] = here } }, encoding)
  end
  if edit.bufnr ~= -1 then
    vim.api.nvim_win_set_cursor(0, { edit.row + 1, edit.col })
    state.shown = edit
    draw()
  end
end

---@param edit composer.NextEdit
local function accept(edit)
  local client = client_of(edit.bufnr)
  local lines = vim.split(edit.new, LINE_END)
  local buffer, row = edit.bufnr, edit.row + #lines - 1
  local col = (#lines == 1 and edit.col or 0) + #lines[#lines]
  local end_row, end_col = edit.end_row, edit.end_col
  if end_row >= vim.api.nvim_buf_line_count(buffer) then -- behind the last line's end
    end_row = vim.api.nvim_buf_line_count(buffer) - 1
    end_col = #vim.api.nvim_buf_get_lines(buffer, end_row, end_row + 1, false)[1]
  end
  drop()
  vim.api.nvim_buf_set_text(buffer, edit.row, edit.col, end_row, end_col, lines)
  local last = vim.api.nvim_buf_line_count(buffer)
  vim.api.nvim_win_set_cursor(0, { math.min(row + 1, last), col })
  if client then
    client:exec_cmd(edit.command, { bufnr = buffer })
  end
  request_soon(buffer, PAUSE_MS.left)
end

--- Jumps to the next edit, or takes it where the cursor is there already.
function M.run()
  local edit = M.current()
  if edit and is_at(edit) then
    accept(edit)
  elseif edit then
    jump(edit)
  end
end

--- Puts it away, and what follows from the same change with it.
function M.dismiss()
  local edit = M.current()
  stop()
  drop()
  if edit then
    server.execute("nextEdit.dismissed", { edit.id })
  end
end

--- Whether the key in insert mode is not meant to indent.
---@return boolean
function M.is_wanted()
  local edit = M.current()
  if not edit then
    return false
  end
  local is_insert = vim.api.nvim_get_mode().mode:find("^i") ~= nil
  local col = vim.api.nvim_win_get_cursor(0)[2]
  if not is_insert or (is_at(edit) and edit.col == col) then
    return true
  end
  return vim.api.nvim_get_current_line():sub(1, col):find("%S") ~= nil
end

---@param bufnr integer
function M.attach(bufnr)
  local group = vim.api.nvim_create_augroup("composer.next_edit", { clear = false })
  vim.api.nvim_clear_autocmds({ group = group, buffer = bufnr })
  local function on(events, callback)
    vim.api.nvim_create_autocmd(events, { group = group, buffer = bufnr, callback = callback })
  end
  local function changed(wait_ms)
    return function()
      if not M.current() then
        drop()
      end
      request_soon(bufnr, wait_ms)
    end
  end
  on("TextChanged", changed(PAUSE_MS.changed))
  on("TextChangedI", changed(PAUSE_MS.typing))
  on("InsertLeave", changed(PAUSE_MS.left))
  on({ "CursorMoved", "CursorMovedI", "BufEnter" }, function()
    if state.shown then
      draw()
    end
  end)
  on("BufUnload", function()
    if state.shown and state.shown.bufnr == bufnr then
      drop()
    end
  end)
  if state.jumped and vim.uri_to_bufnr(state.jumped) == bufnr then
    state.jumped = nil
    -- Once the client is attached.
    vim.schedule(function()
      request(bufnr, AUTOMATIC)
    end)
  end
end

return M
