--- Tells the language server where the cursor rests, so that the next suggestion there comes soon: the
--- prompt that it needs is computed meanwhile.
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

local function tell()
  local place = here()
  local name = require("composer.server").NAME
  local client = vim.lsp.get_clients({ name = name, bufnr = place.bufnr })[1]
  if not client or not client.initialized or vim.deep_equal(place, told) then
    return
  end
  told = place
  local range = vim.lsp.util.make_range_params(0, client.offset_encoding).range
  local options = { uri = vim.uri_from_bufnr(place.bufnr), range = range }
  -- Says nothing, whatever comes of it.
  local params = { command = "composer.prepare", arguments = { options } }
  client:request("workspace/executeCommand", params, function() end, place.bufnr)
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
  if bufnr == vim.api.nvim_get_current_buf() then
    begin()
  end
end

return M
