--- The language server: found, started for every buffer that wants it, started again when it stops.
local M = {}

local config = require("composer.config")

M.NAME = "composer-lsp"

M.INSTALL = "Install it with `pipx install .` in a clone of Composer's repository, or name it by the"
  .. " option `cmd`, then run :Composer restart. See :help composer-server"

local MAX_PAUSE_S = 60

---@type { num_crashes: integer, is_stopping: boolean, told_missing: boolean }
local state = { num_crashes = 0, is_stopping = false, told_missing = false }

--- The command to start, and every place that was searched.
---@return string[]? cmd
---@return string[] searched
function M.find()
  local cmd = config.options.cmd
  if cmd then
    local program = vim.fn.exepath(vim.fn.expand(cmd[1]))
    return program ~= "" and { program, unpack(cmd, 2) } or nil, { cmd[1] }
  end
  local searched = { "the PATH" }
  local environment = vim.env.VIRTUAL_ENV
  if environment and environment ~= "" then
    local program = vim.fs.joinpath(environment, "bin", M.NAME)
    if vim.fn.executable(program) == 1 then
      return { program, "serve" }, { program }
    end
    table.insert(searched, 1, program)
  end
  local program = vim.fn.exepath(M.NAME)
  return program ~= "" and { program, "serve" } or nil, searched
end

---@return vim.lsp.Client[]
function M.clients()
  return vim.lsp.get_clients({ name = M.NAME })
end

---@param bufnr integer
---@return boolean
local function wants(bufnr)
  if not vim.api.nvim_buf_is_loaded(bufnr) or vim.bo[bufnr].buftype ~= "" then
    return false
  end
  local filetype = vim.bo[bufnr].filetype
  if vim.list_contains(config.options.disabled_filetypes, filetype) then
    return false
  end
  return filetype ~= "" or vim.api.nvim_buf_get_name(bufnr) == ""
end

local function capabilities()
  return vim.tbl_deep_extend("force", vim.lsp.protocol.make_client_capabilities(), {
    textDocument = { inlineCompletion = { dynamicRegistration = false } },
    experimental = { composer = { status = true } },
  })
end

local function restart_after_crash()
  state.num_crashes = state.num_crashes + 1
  local pause_s = state.num_crashes == 1 and 0 or math.min(2 ^ (state.num_crashes - 2), MAX_PAUSE_S)
  require("composer.status").stopped(pause_s)
  vim.defer_fn(function()
    if not state.is_stopping then
      M.attach_all()
    end
  end, pause_s * 1000)
end

--- Starts the process. That it died is told by the status and the log, and mended here, so Neovim's
--- own message about it is not wanted.
---@param cmd string[]
---@return fun(dispatchers: vim.lsp.rpc.Dispatchers): vim.lsp.rpc.PublicClient
local function starter(cmd)
  return function(dispatchers)
    local own = vim.tbl_extend("force", dispatchers, {
      on_exit = function(code, signal)
        vim.schedule(function()
          if not state.is_stopping and vim.v.exiting == vim.NIL then
            restart_after_crash()
          end
        end)
        dispatchers.on_exit(0, 0)
        if code ~= 0 or signal ~= 0 then
          require("vim.lsp.log").warn(M.NAME, "ended with code", code, "signal", signal)
        end
      end,
    })
    return vim.lsp.rpc.start(cmd, own)
  end
end

---@param cmd string[]
---@param bufnr integer
---@return vim.lsp.ClientConfig
local function client_config(cmd, bufnr)
  return {
    name = M.NAME,
    cmd = starter(cmd),
    root_dir = vim.fs.root(bufnr, config.options.root_markers),
    capabilities = capabilities(),
    settings = { composer = config.options.settings },
    init_options = config.options.settings,
    handlers = {
      ["composer/status"] = function(_, status)
        require("composer.status").set(status)
      end,
    },
    on_attach = function(client, attached)
      require("composer.keys").attach(attached)
      require("composer.ghost").attach(client, attached)
    end,
  }
end

--- Attaches the language server to a buffer that wants it, and starts it where none runs.
---@param bufnr integer
function M.attach(bufnr)
  if not wants(bufnr) then
    return
  end
  local cmd, searched = M.find()
  if not cmd then
    require("composer.status").missing()
    if not state.told_missing then
      state.told_missing = true
      local place = table.concat(searched, " and ")
      vim.notify(("Composer: %s was not found in %s. %s"):format(M.NAME, place, M.INSTALL), vim.log.levels.WARN)
    end
    return
  end
  vim.lsp.start(client_config(cmd, bufnr), { bufnr = bufnr })
end

function M.attach_all()
  for _, bufnr in ipairs(vim.api.nvim_list_bufs()) do
    M.attach(bufnr)
  end
end

--- Stops the language server, and starts it again once it has left.
function M.restart()
  state.is_stopping, state.told_missing, state.num_crashes = true, false, 0
  local clients = M.clients()
  for _, client in ipairs(clients) do
    client:stop()
  end
  local function start_when_gone()
    if #M.clients() > 0 then
      vim.defer_fn(start_when_gone, 20)
      return
    end
    state.is_stopping = false
    M.attach_all()
  end
  start_when_gone()
end

--- Asks the language server to run one of its commands.
---@param command string without the prefix `composer.`
---@param arguments any[]
---@param on_result? fun(result: any)
function M.execute(command, arguments, on_result)
  local bufnr = vim.api.nvim_get_current_buf()
  local client = vim.lsp.get_clients({ name = M.NAME, bufnr = bufnr })[1] or M.clients()[1]
  if not client then
    vim.notify("Composer: the language server is not running; see :checkhealth composer", vim.log.levels.WARN)
    return
  end
  local params = { command = "composer." .. command, arguments = arguments }
  client:request("workspace/executeCommand", params, function(err, result)
    if err then
      vim.notify("Composer: " .. err.message, vim.log.levels.ERROR)
    elseif on_result then
      on_result(result)
    end
  end, bufnr)
end

function M.setup()
  vim.api.nvim_set_hl(0, "ComposerSuggestion", { link = "Comment", default = true })
  local group = vim.api.nvim_create_augroup("composer", {})
  vim.api.nvim_create_autocmd({ "FileType", "InsertEnter" }, {
    group = group,
    callback = function(event)
      if #vim.lsp.get_clients({ name = M.NAME, bufnr = event.buf }) == 0 then
        M.attach(event.buf)
      end
    end,
  })
  vim.api.nvim_create_autocmd("LspAttach", {
    group = group,
    callback = function(event)
      local client = vim.lsp.get_client_by_id(event.data.client_id)
      if client and client.name == M.NAME then
        -- Long enough alive not to count as broken from the start.
        vim.defer_fn(function()
          if not client:is_stopped() then
            state.num_crashes = 0
          end
        end, MAX_PAUSE_S * 1000)
      end
    end,
  })
  M.attach_all()
end

return M
