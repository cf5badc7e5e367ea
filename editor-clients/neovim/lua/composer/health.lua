local M = {}

function M.check()
  local health, server = vim.health, require("composer.server")
  health.start("Composer")
  if vim.fn.has("nvim-0.11") == 0 then
    health.error("Neovim is too old", "Install Neovim 0.11 or newer")
    return
  end
  local way = vim.lsp.inline_completion and "by vim.lsp.inline_completion" or "by the plugin's own ghost text"
  health.ok(("Neovim %s shows suggestions %s"):format(tostring(vim.version()), way))
  local cmd, searched = server.find()
  if not cmd then
    health.error("composer-lsp was not found in " .. table.concat(searched, " and "), server.INSTALL)
    return
  end
  local result = vim.system({ cmd[1], "--version" }, { text = true }):wait(30000)
  if result.code == 0 then
    health.ok(("%s (%s)"):format(vim.trim(result.stdout), cmd[1]))
  else
    health.error(("%s does not run: %s"):format(cmd[1], vim.trim(result.stderr or "")), server.INSTALL)
    return
  end
  if vim.fn.exists("#composer") == 0 then
    health.error("The plugin is not set up", 'Call require("composer").setup({}) in your configuration')
  elseif #server.clients() == 0 then
    health.warn("The language server is not running", "Open a file, or run :Composer restart")
  else
    local status = require("composer.status").get()
    health.ok("The language server runs: " .. (status and status.message or "no status yet"))
  end
  health.info("`:Composer doctor` checks the model, the engine and the hardware")
end

return M
