--- Tells the language server where the cursor rests, so that the next suggestion there comes soon: the
--- prompt that it needs is computed meanwhile; and what was copied, which may be wanted elsewhere.
local M = {}

local REST_MS = 500

---@type uv.uv_timer_t?
local timer
---@type { bufnr: integer, tick: integer, row: integer, col: integer }?
local told

--- Where the cursor is and in which text.
---@return { bufnr: integer, tick: integer, row: integer, col: integer }
local function here()
  local bufnr = vim.api.nvim_get_current_buf()
  local row, col = unpack(vim.api.nvim_win_get_cursor(0))
  return { bufnr = bufnr, tick = vim.api.nvim_buf_get_changedtick(bufnr), row = row, col = col }
end

--- The client of a buffer; nil where there is none yet.
---@param bufnr integer
---@return vim.lsp.Client?
local function client_of(bufnr)
  local client = vim.lsp.get_clients({ name = require("composer.server").NAME, bufnr = bufnr })[1]
  return client and client.initialized and client or nil
end

--- Has the server run a command for a range. Says nothing, whatever comes of it.
---@param client vim.lsp.Client
---@param bufnr integer
---@param command string
---@param range lsp.Range
local function execute(client, bufnr, command, range)
  local options = { uri = vim.uri_from_bufnr(bufnr), range = range }
  local params = { command = command, arguments = { options } }
  client:request("workspace/executeCommand", params, function() end, bufnr)
end

local function tell()
  local place = here()
  local client = client_of(place.bufnr)
  if not client or vim.deep_equal(place, told) then
    return
  end
  told = place
  local range = vim.lsp.util.make_range_params(0, client.offset_encoding).range
  execute(client, place.bufnr, "composer.prepare", range)
end

--- Whole lines from the first to the last one that was copied.
local function tell_copied()
  local bufnr = vim.api.nvim_get_current_buf()
  local client = client_of(bufnr)
  if not client or vim.v.event.operator ~= "y" then
    return
  end
  local first, last = vim.fn.line("'["), vim.fn.line("']")
  local range = { start = { line = first - 1, character = 0 }, ["end"] = { line = last, character = 0 } }
  execute(client, bufnr, "composer.copied", range)
end

local function begin()
  timer = timer or assert(vim.uv.new_timer())
  timer:start(REST_MS, 0, vim.schedule_wrap(tell))
end

--- Watches a buffer that the language server has attached to.
---@param bufnr integer
function M.attach(bufnr)
  local group = vim.api.nvim_create_augroup("composer.rest", { clear = false })
  vim.api.nvim_clear_autocmds({ group = group, buffer = bufnr })
  vim.api.nvim_create_autocmd({ "BufEnter", "CursorMoved", "CursorMovedI" }, {
    group = group,
    buffer = bufnr,
    desc = "Tell Composer where the cursor rests",
    callback = begin,
  })
  vim.api.nvim_create_autocmd("TextYankPost", {
    group = group,
    buffer = bufnr,
    desc = "Tell Composer what was copied",
    callback = tell_copied,
  })
  if bufnr == vim.api.nvim_get_current_buf() then
    begin()
  end
end

return M
