--- The language server: one for all buffers, started with the first that wants it, started again when
--- it stops.
local M = {}

local config = require("composer.config")
local discovery = require("composer.discovery")

M.NAME = "composer-lsp"

local MAX_PAUSE_S = 60
local CRASHES_TO_TELL = 3
local STOP_LIMIT_MS = 3000

---@type { num_crashes: integer, is_stopping: boolean, told_missing: boolean }
local state = { num_crashes = 0, is_stopping = false, told_missing = false }

---@return vim.lsp.Client[]
function M.clients()
  return vim.lsp.get_clients({ name = M.NAME })
end

---@param bufnr integer
---@return boolean
local function is_unnamed(bufnr)
  return vim.api.nvim_buf_get_name(bufnr) == ""
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
  return filetype ~= "" or is_unnamed(bufnr)
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
  if state.num_crashes == CRASHES_TO_TELL then
    local message = "Composer: the language server keeps stopping. See :checkhealth composer and %s"
    vim.notify(message:format(require("vim.lsp.log").get_filename()), vim.log.levels.WARN)
  end
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

---@param bufnr integer
---@return string?
local function root_of(bufnr)
  return vim.fs.root(bufnr, config.options.root_markers)
end

--- Tells the language server of the project that a buffer belongs to, if that is news.
---@param client vim.lsp.Client
---@param bufnr integer
local function add_folder(client, bufnr)
  local root = root_of(bufnr)
  local folders = client.workspace_folders or {}
  if not root or vim.iter(folders):any(function(folder)
    return folder.name == root
  end) then
    return
  end
  local folder = { uri = vim.uri_from_fname(root), name = root }
  client.workspace_folders = vim.list_extend(folders, { folder })
  client:notify("workspace/didChangeWorkspaceFolders", { event = { added = { folder }, removed = {} } })
end

--- Buffers without a name have one URI between them, so only the newest of them is open there.
---@param client vim.lsp.Client
---@param bufnr integer
local function detach_other_unnamed(client, bufnr)
  if not is_unnamed(bufnr) then
    return
  end
  for other in pairs(client.attached_buffers) do
    if other ~= bufnr and vim.api.nvim_buf_is_valid(other) and is_unnamed(other) then
      vim.lsp.buf_detach_client(other, client.id)
    end
  end
end

--- Forgives the crashes before a language server that stayed alive for a while.
---@param client vim.lsp.Client
local function forgive_later(client)
  vim.defer_fn(function()
    if not client:is_stopped() then
      state.num_crashes = 0
    end
  end, MAX_PAUSE_S * 1000)
end

---@param cmd string[]
---@param bufnr integer
---@return vim.lsp.ClientConfig
local function client_config(cmd, bufnr)
  return {
    name = M.NAME,
    cmd = starter(cmd),
    root_dir = root_of(bufnr),
    capabilities = capabilities(),
    settings = { composer = config.options.settings },
    init_options = config.options.settings,
    handlers = {
      ["composer/status"] = function(_, status)
        require("composer.status").set(status)
      end,
    },
    on_init = forgive_later,
    on_attach = function(client, attached)
      add_folder(client, attached)
      require("composer.keys").attach(attached)
      require("composer.ghost").attach(client, attached)
      require("composer.rest").attach(attached)
      require("composer.next_edit").attach(attached)
    end,
  }
end

---@param searched string[]
local function tell_missing(searched)
  local message = discovery.missing(searched)
  require("composer.status").set({ state = "missing", message = message })
  if not state.told_missing then
    state.told_missing = true
    vim.notify("Composer: " .. message, vim.log.levels.WARN)
  end
end

--- Attaches the language server to a buffer that wants it, and starts it where none runs.
---@param bufnr integer
function M.attach(bufnr)
  if not wants(bufnr) then
    return
  end
  local cmd, searched = discovery.find()
  if not cmd then
    tell_missing(searched)
    return
  end
  for _, client in ipairs(M.clients()) do
    detach_other_unnamed(client, bufnr)
  end
  vim.lsp.start(client_config(cmd, bufnr), {
    bufnr = bufnr,
    reuse_client = function(client)
      return client.name == M.NAME and not client:is_stopped()
    end,
  })
end

--- Attaches to the loaded buffers that have a name or are in a window.
function M.attach_all()
  for _, bufnr in ipairs(vim.api.nvim_list_bufs()) do
    if not is_unnamed(bufnr) or vim.fn.bufwinid(bufnr) ~= -1 then
      M.attach(bufnr)
    end
  end
end

--- Stops the language server, and starts it again once it has left.
function M.restart()
  state.is_stopping, state.told_missing, state.num_crashes = true, false, 0
  for _, client in ipairs(M.clients()) do
    client:stop()
  end
  local deadline = vim.uv.now() + STOP_LIMIT_MS
  local function start_when_gone()
    local clients = M.clients()
    if #clients > 0 then
      if vim.uv.now() > deadline then
        vim.iter(clients):each(function(client)
          client:stop(true)
        end)
      end
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
  local client = M.clients()[1]
  if not client or not client.initialized then
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

--- Has the language server compare the index with the files, where one runs: events may have been lost
--- while nobody looked. Says nothing, whatever comes of it.
function M.reconcile_index()
  local client = M.clients()[1]
  if client and client.initialized then
    client:request("workspace/executeCommand", { command = "composer.index.reconcile" }, function() end)
  end
end

function M.setup()
  -- Those that Neovim draws by itself, where it does.
  local is_builtin = vim.lsp.inline_completion ~= nil
  vim.api.nvim_set_hl(0, "ComposerSuggestion", { link = is_builtin and "ComplHint" or "Comment", default = true })
  vim.api.nvim_set_hl(0, "ComposerHint", { link = is_builtin and "ComplHintMore" or "MoreMsg", default = true })
  vim.api.nvim_set_hl(0, "ComposerInsert", { link = "DiffAdd", default = true })
  vim.api.nvim_set_hl(0, "ComposerDelete", { link = "DiffDelete", default = true })
  local group = vim.api.nvim_create_augroup("composer", {})
  vim.api.nvim_create_autocmd({ "FileType", "InsertEnter", "BufEnter" }, {
    group = group,
    desc = "Attach Composer's language server",
    callback = function(event)
      -- Entering a buffer starts no server, but one without a name takes its turn before it changes:
      -- Neovim does not track changes again that were made while nothing was attached.
      local is_due = event.event ~= "BufEnter" or (is_unnamed(event.buf) and #M.clients() > 0)
      if is_due and #vim.lsp.get_clients({ name = M.NAME, bufnr = event.buf }) == 0 then
        M.attach(event.buf)
      end
    end,
  })
  vim.api.nvim_create_autocmd({ "FocusGained", "VimResume" }, {
    group = group,
    desc = "Let Composer look for files that changed meanwhile",
    callback = M.reconcile_index,
  })
  -- While Neovim starts, the events of its files are still to come.
  if vim.v.vim_did_enter == 1 then
    M.attach_all()
  end
end

return M
