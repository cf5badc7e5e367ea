local M = {}

---@class composer.Keys Insert-mode keys, those of the next edit in normal mode too; `false` sets none.
---@field accept? string|false
---@field accept_word? string|false
---@field accept_line? string|false
---@field next? string|false
---@field dismiss? string|false
---@field next_edit? string|false Jumps to the next edit, then takes it.
---@field dismiss_next_edit? string|false In normal mode.

---@class composer.Options
---@field cmd? string[] Command of the language server. Default: `composer-lsp` in `$VIRTUAL_ENV/bin`, else on the PATH.
---@field disabled_filetypes? string[] File types without the language server.
---@field root_markers? string[] Names that mark the root folder of a project.
---@field keys? composer.Keys
---@field settings? table The language server's settings, such as `{ tab = { maxTokens = 96 } }`.

---@type composer.Options
local defaults = {
  cmd = nil,
  disabled_filetypes = { "help", "man", "qf", "netrw", "gitrebase", "checkhealth" },
  root_markers = { ".git", ".hg", "pyproject.toml", "package.json", "Cargo.toml", "go.mod" },
  keys = {
    accept = "<Tab>",
    accept_word = "<M-Right>",
    accept_line = "<M-Down>",
    next = "<M-]>",
    dismiss = "<C-]>",
    next_edit = "<Tab>",
    dismiss_next_edit = "<Esc>",
  },
  settings = vim.empty_dict(),
}

---@type composer.Options
M.options = defaults

---@param options? composer.Options
function M.setup(options)
  options = options or {}
  vim.validate("options", options, "table")
  vim.validate("cmd", options.cmd, "table", true, "list of strings")
  vim.validate("disabled_filetypes", options.disabled_filetypes, "table", true)
  vim.validate("root_markers", options.root_markers, "table", true)
  vim.validate("keys", options.keys, "table", true)
  vim.validate("settings", options.settings, "table", true)
  for name in pairs(options) do
    if defaults[name] == nil and name ~= "cmd" then
      error(("composer: there is no option %q; see docs/neovim.md"):format(name), 0)
    end
  end
  for name, key in pairs(options.keys or {}) do
    if defaults.keys[name] == nil then
      error(("composer: there is no key %q; see docs/neovim.md"):format(name), 0)
    end
    if key ~= false then
      vim.validate("keys." .. name, key, "string")
    end
  end
  M.options = vim.tbl_deep_extend("force", defaults, options)
end

return M
