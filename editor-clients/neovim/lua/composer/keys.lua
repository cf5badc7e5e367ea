--- Keys in insert mode that do what they did before whenever there is nothing to accept.
local M = {}

local PREFIX = "Composer: "

---@type table<string, { method: string, description: string }>
local actions = {
  accept = { method = "accept", description = "accept the suggestion" },
  accept_word = { method = "accept_word", description = "accept the suggestion's next word" },
  accept_line = { method = "accept_line", description = "accept the suggestion's next line" },
  next = { method = "next", description = "show the next suggestion" },
  dismiss = { method = "dismiss", description = "dismiss the suggestion" },
}

--- What buffers had on our keys before.
---@type table<integer, table<string, table?>>
local earlier = {}

---@param keys string
---@return string
local function termcodes(keys)
  return vim.api.nvim_replace_termcodes(keys, true, true, true)
end

--- The mapping that a key would have without ours: the buffer's, else the one of all buffers, looked
--- up only now, since it may be made after ours.
---@param lhs string
---@return table?
local function mapping_before(lhs)
  local own = (earlier[vim.api.nvim_get_current_buf()] or {})[lhs]
  if own then
    return own
  end
  local raw = termcodes(lhs)
  for _, mapping in ipairs(vim.api.nvim_get_keymap("i")) do
    if mapping.lhsraw == raw or mapping.lhsrawalt == raw then
      return mapping
    end
  end
end

---@param mapping table
---@return string keys
local function evaluate(mapping)
  local keys
  if mapping.callback then
    keys = mapping.callback() or ""
  else
    local script = ("<SNR>%d_"):format(mapping.sid)
    keys = vim.api.nvim_eval((mapping.rhs:gsub("<SID>", script)))
  end
  return mapping.replace_keycodes == 1 and termcodes(keys) or keys
end

--- The keys to go on with; those that may be mapped further are put into the input instead.
---@param lhs string
---@return string
local function fall_through(lhs)
  local mapping = mapping_before(lhs)
  if not mapping then
    return termcodes(lhs)
  end
  local keys
  if mapping.expr == 1 then
    keys = evaluate(mapping)
  elseif mapping.callback then
    vim.schedule(mapping.callback)
    return ""
  else
    keys = termcodes((mapping.rhs:gsub("<SID>", ("<SNR>%d_"):format(mapping.sid))))
  end
  if mapping.noremap == 1 then
    return keys
  end
  vim.api.nvim_feedkeys(keys, "mi", false)
  return ""
end

---@param name string
---@param lhs string
---@return boolean
local function applies(name, lhs)
  local ghost = require("composer.ghost")
  if name == "next" then
    return true
  elseif name == "accept" and termcodes(lhs) == "\t" and ghost.is_indentation() then
    return false
  end
  return ghost.remaining() ~= nil
end

---@param bufnr integer
---@param name string
---@param lhs string
local function map(bufnr, name, lhs)
  local before = vim.api.nvim_buf_call(bufnr, function()
    return vim.fn.maparg(lhs, "i", false, true)
  end)
  if not vim.startswith(before.desc or "", PREFIX) then
    earlier[bufnr][lhs] = before.buffer == 1 and before or nil
  end
  local action = actions[name]
  local call = termcodes(('<Cmd>lua require("composer").%s()<CR>'):format(action.method))
  vim.keymap.set("i", lhs, function()
    return applies(name, lhs) and call or fall_through(lhs)
  end, {
    buffer = bufnr,
    expr = true,
    replace_keycodes = false,
    desc = PREFIX .. action.description,
  })
end

--- Sets the keys in a buffer.
---@param bufnr integer
function M.attach(bufnr)
  earlier[bufnr] = earlier[bufnr] or {}
  for name, lhs in pairs(require("composer.config").options.keys) do
    if lhs then
      map(bufnr, name, lhs)
    end
  end
  vim.api.nvim_create_autocmd("BufWipeout", {
    buffer = bufnr,
    once = true,
    callback = function()
      earlier[bufnr] = nil
    end,
  })
end

return M
