--- Keys that do what they did before whenever there is nothing to accept.
local M = {}

local PREFIX = "Composer: "

---@type table<string, { run: fun(), description: string }>
local actions = {
  accept = {
    description = "accept the suggestion",
    run = function()
      require("composer.ghost").accept("all")
    end,
  },
  accept_word = {
    description = "accept the suggestion's next word",
    run = function()
      require("composer.ghost").accept("word")
    end,
  },
  accept_line = {
    description = "accept the suggestion's next line",
    run = function()
      require("composer.ghost").accept("line")
    end,
  },
  next = {
    description = "show the next suggestion, or ask for one",
    run = function()
      require("composer.ghost").next()
    end,
  },
  dismiss = {
    description = "dismiss the suggestion",
    run = function()
      require("composer.ghost").dismiss()
    end,
  },
  next_edit = {
    description = "jump to the next edit, or take it",
    run = function()
      require("composer.next_edit").run()
    end,
  },
  dismiss_next_edit = {
    description = "dismiss the next edit",
    run = function()
      require("composer.next_edit").dismiss()
    end,
  },
}

--- The actions of each mode; of those on one key the first that applies is taken.
local MODES = {
  i = { "accept", "accept_word", "accept_line", "next", "dismiss", "next_edit" },
  n = { "next_edit", "dismiss_next_edit" },
}

--- What buffers had on our keys before, by buffer, mode and key.
---@type table<integer, table<string, table<string, table?>>>
local earlier = {}

---@type fun()?
local pending

---@param keys string
---@return string
local function termcodes(keys)
  return vim.api.nvim_replace_termcodes(keys, true, true, true)
end

--- Keys that run a function as the next thing, with text not locked any more.
---@param callback fun()
---@return string keys
local function call(callback)
  pending = callback
  return termcodes('<Cmd>lua require("composer.keys").run_pending()<CR>')
end

function M.run_pending()
  local callback = pending
  pending = nil
  if callback then
    callback()
  end
end

--- The mapping that a key would have without ours: the buffer's, else the one of all buffers, looked
--- up only now, since it may be made after ours.
---@param mode string
---@param lhs string
---@return table?
local function mapping_before(mode, lhs)
  local own = ((earlier[vim.api.nvim_get_current_buf()] or {})[mode] or {})[lhs]
  if own then
    return own
  end
  local raw = termcodes(lhs)
  for _, mapping in ipairs(vim.api.nvim_get_keymap(mode)) do
    if mapping.lhsraw == raw or mapping.lhsrawalt == raw then
      return mapping
    end
  end
end

---@param mapping table
---@return string
local function rhs_of(mapping)
  return (mapping.rhs:gsub("<SID>", ("<SNR>%d_"):format(mapping.sid)))
end

---@param mapping table
---@return string keys
local function evaluate(mapping)
  local keys
  if mapping.callback then
    keys = mapping.callback() or ""
  else
    keys = vim.api.nvim_eval(rhs_of(mapping))
  end
  return mapping.replace_keycodes == 1 and termcodes(keys) or keys
end

--- The keys to go on with; those that may be mapped further are put into the input instead.
---@param mode string
---@param lhs string
---@return string
local function fall_through(mode, lhs)
  local mapping = mapping_before(mode, lhs)
  if not mapping then
    return termcodes(lhs)
  end
  local keys
  if mapping.expr == 1 then
    keys = evaluate(mapping)
  elseif mapping.callback then
    return call(mapping.callback)
  else
    keys = termcodes(rhs_of(mapping))
  end
  if mapping.noremap == 1 then
    return keys
  end
  vim.api.nvim_feedkeys(keys, "mi", false)
  return ""
end

--- Whether the built-in completion menu has a better claim: an entry is selected, or the user's own
--- mapping of the key walks through the menu.
---@param lhs string
---@return boolean
local function is_for_menu(lhs)
  if vim.fn.pumvisible() == 0 then
    return false
  end
  local mapping = mapping_before("i", lhs)
  local is_users = mapping ~= nil and not vim.startswith(mapping.desc or "", "vim.snippet.jump")
  return is_users or vim.fn.complete_info({ "selected" }).selected ~= -1
end

---@param name string
---@param lhs string
---@return boolean
local function applies(name, lhs)
  local ghost = require("composer.ghost")
  if name == "next_edit" then
    return require("composer.next_edit").is_wanted() and not is_for_menu(lhs)
  elseif name == "dismiss_next_edit" then
    return require("composer.next_edit").current() ~= nil
  elseif name == "next" then
    return true
  elseif not ghost.remaining() or is_for_menu(lhs) then
    return false
  end
  return not (name == "accept" and termcodes(lhs) == "\t" and ghost.is_indentation())
end

---@param bufnr integer
---@param mode string
---@param lhs string
---@param names string[]
local function map(bufnr, mode, lhs, names)
  local before = vim.api.nvim_buf_call(bufnr, function()
    return vim.fn.maparg(lhs, mode, false, true)
  end)
  earlier[bufnr][mode][lhs] = before.buffer == 1 and before or nil
  local descriptions = {}
  for _, name in ipairs(names) do
    table.insert(descriptions, actions[name].description)
  end
  vim.keymap.set(mode, lhs, function()
    for _, name in ipairs(names) do
      if applies(name, lhs) then
        -- <C-g>u: what is accepted is undone by itself.
        local is_taken = mode == "i" and (vim.startswith(name, "accept") or name == "next_edit")
        return (is_taken and termcodes("<C-g>u") or "") .. call(actions[name].run)
      end
    end
    return fall_through(mode, lhs)
  end, {
    buffer = bufnr,
    expr = true,
    replace_keycodes = false,
    desc = PREFIX .. table.concat(descriptions, "; "),
  })
end

--- Sets the keys in a buffer, once: a completion plugin may have put its own in front of them
--- meanwhile, which fall through to ours.
---@param bufnr integer
function M.attach(bufnr)
  if earlier[bufnr] then
    return
  end
  earlier[bufnr] = {}
  local keys = require("composer.config").options.keys
  for mode, names in pairs(MODES) do
    earlier[bufnr][mode] = {}
    local by_key = {}
    for _, name in ipairs(names) do
      if keys[name] then
        by_key[keys[name]] = vim.list_extend(by_key[keys[name]] or {}, { name })
      end
    end
    for lhs, own in pairs(by_key) do
      map(bufnr, mode, lhs, own)
    end
  end
  -- Deleting a buffer takes its mappings, even when it comes back later.
  vim.api.nvim_create_autocmd({ "BufDelete", "BufWipeout" }, {
    buffer = bufnr,
    once = true,
    callback = function()
      earlier[bufnr] = nil
    end,
  })
end

return M
