--- What Composer is doing, as the language server tells it, and for the statusline.
local M = {}

---@class composer.Status
---@field state "idle"|"starting"|"downloading"|"loading"|"thinking"|"snoozed"|"disabled"|"offline"|"error"|"stopped"|"missing"
---@field message string
---@field percent? integer
---@field model? string

---@type composer.Status?
local current

local function publish()
  vim.api.nvim_exec_autocmds("User", { pattern = "ComposerStatus", modeline = false, data = current })
  vim.cmd.redrawstatus({ bang = true })
end

---@param status composer.Status
function M.set(status)
  current = status
  publish()
end

---@param pause_s number
function M.stopped(pause_s)
  local when = pause_s > 0 and ("it is started again in %d s"):format(pause_s) or "it is started again"
  M.set({ state = "stopped", message = "The language server stopped; " .. when })
end

--- What the language server told last; nil before it told anything.
---@return composer.Status?
function M.get()
  return current
end

local WORDS = { idle = "Composer", thinking = "Composer …", disabled = "Composer: off", missing = "Composer: not installed" }

---@return string
function M.line()
  if not current then
    return ""
  elseif current.state == "downloading" and current.percent then
    -- A statusline takes a percent sign for the start of an item.
    return ("Composer: downloading %d%%%%"):format(current.percent)
  end
  return WORDS[current.state] or ("Composer: " .. current.state)
end

return M
