--- `:Composer SUBCOMMAND`.
local M = {}

local server = require("composer.server")

---@param message string
local function tell(message)
  vim.notify("Composer: " .. message)
end

---@param status composer.Status
local function tell_status(status)
  local percent = status.percent and (": %d%%"):format(status.percent) or ""
  local model = status.model and (" (%s)"):format(status.model) or ""
  tell(status.message .. percent .. model)
end

--- Shows why a suggestion is what it is, in a buffer of its own that is not kept.
---@param result { markdown: string }
local function show_explanation(result)
  vim.cmd("botright new")
  local bufnr = vim.api.nvim_get_current_buf()
  vim.bo[bufnr].buftype, vim.bo[bufnr].bufhidden, vim.bo[bufnr].swapfile = "nofile", "wipe", false
  vim.api.nvim_buf_set_lines(bufnr, 0, -1, true, vim.split(result.markdown, "\n"))
  vim.bo[bufnr].filetype, vim.bo[bufnr].modifiable = "markdown", false
end

---@type table<string, fun()>
local index_actions = {
  pause = function()
    server.execute("index.pause", {}, function(result)
      tell(result.paused and "indexing is paused" or "indexing goes on")
    end)
  end,
  rebuild = function()
    server.execute("index.rebuild", {}, function()
      tell("the index is built anew")
    end)
  end,
  status = function()
    server.execute("index.status", {}, function(folders)
      for _, each in ipairs(folders) do
        local paused = each.paused and ", paused" or ""
        tell(("%s: %s%s, %d files, %d waiting"):format(each.root, each.state, paused, each.num_files, each.num_waiting))
      end
    end)
  end,
}

---@class composer.Subcommand
---@field run fun(argument?: string)
---@field arguments? fun(): string[]

---@type table<string, composer.Subcommand>
local subcommands = {
  status = {
    run = function()
      server.execute("status", {}, tell_status)
    end,
  },
  snooze = {
    arguments = function()
      return { "0", "5", "15", "60" }
    end,
    run = function(argument)
      local minutes = argument and tonumber(argument)
      if argument and not minutes then
        vim.notify(("Composer: %q is not a number of minutes"):format(argument), vim.log.levels.ERROR)
        return
      end
      server.execute("snooze", { minutes }, tell_status)
    end,
  },
  toggle = {
    arguments = function()
      return { "global", vim.bo.filetype }
    end,
    run = function(argument)
      local language = argument and argument ~= "global" and argument or nil
      server.execute("toggle", { language and "language:" .. language or "global" }, function(result)
        tell(("suggestions are %s for %s"):format(result.enabled and "on" or "off", language or "all files"))
      end)
    end,
  },
  next = {
    run = function()
      require("composer.next_edit").ask()
    end,
  },
  index = {
    arguments = function()
      return { "pause", "rebuild", "status" }
    end,
    run = function(argument)
      local action = index_actions[argument or "status"]
      if not action then
        local message = "Composer: %q is none of pause, rebuild, status"
        vim.notify(message:format(argument), vim.log.levels.ERROR)
        return
      end
      action()
    end,
  },
  restart = {
    arguments = function()
      return { "engine", "server" }
    end,
    run = function(argument)
      if argument == "engine" then
        server.execute("restartEngine", {}, tell_status)
      else
        server.restart()
      end
    end,
  },
  log = {
    run = function()
      server.execute("showLog", {}, function(result)
        vim.cmd.split(vim.fn.fnameescape(result.path))
      end)
    end,
  },
  why = {
    run = function()
      server.execute("explainSuggestion", {}, show_explanation)
    end,
  },
  pull = {
    run = function(argument)
      tell("fetching the model; see :Composer status")
      server.execute("pullModel", { argument }, function(result)
        tell("the model is in " .. result.path)
      end)
    end,
  },
  doctor = {
    run = function()
      local discovery = require("composer.discovery")
      local cmd, searched = discovery.find()
      if not cmd then
        vim.notify("Composer: " .. discovery.missing(searched), vim.log.levels.WARN)
        return
      end
      vim.cmd("botright new")
      vim.fn.jobstart(discovery.with(cmd, "doctor"), { term = true })
    end,
  },
}

---@param arguments string[]
function M.run(arguments)
  local subcommand = subcommands[arguments[1] or "status"]
  if not subcommand then
    local names = table.concat(M.names(), ", ")
    vim.notify(("Composer: %q is none of %s"):format(arguments[1], names), vim.log.levels.ERROR)
    return
  end
  subcommand.run(arguments[2])
end

---@return string[]
function M.names()
  local names = vim.tbl_keys(subcommands)
  table.sort(names)
  return names
end

---@param lead string
---@param line string
---@return string[]
function M.complete(lead, line)
  local words = vim.split(line:gsub("^.*Composer%s+", ""), "%s+")
  local subcommand = subcommands[words[1]]
  local candidates = {}
  if #words <= 1 then
    candidates = M.names()
  elseif #words == 2 and subcommand and subcommand.arguments then
    candidates = subcommand.arguments()
  end
  return vim.tbl_filter(function(candidate)
    return vim.startswith(candidate, lead)
  end, candidates)
end

return M
