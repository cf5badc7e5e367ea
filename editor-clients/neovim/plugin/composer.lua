if vim.g.loaded_composer then
  return
end
vim.g.loaded_composer = true

vim.api.nvim_create_user_command("Composer", function(command)
  require("composer.commands").run(command.fargs)
end, {
  nargs = "*",
  desc = "Composer: status, snooze, toggle, next, index, restart, log, pull, doctor",
  complete = function(lead, line)
    return require("composer.commands").complete(lead, line)
  end,
})
