--- The suggestions for one place, of which one is shown.
local M = {}

local suggestion = require("composer.suggestion")

---@class composer.Choices
---@field list composer.Suggestion[]
---@field index integer of the one that is shown
---@field is_chosen boolean whether the user went to it: then no automatic answer takes its place

---@param list composer.Suggestion[]
---@return composer.Choices
function M.new(list)
  return { list = list, index = 1, is_chosen = false }
end

---@param choices composer.Choices
---@return composer.Suggestion?
function M.current(choices)
  return choices.list[choices.index]
end

--- What is left of the one that is shown; nil once it does not belong there.
---@param choices composer.Choices
---@return string?
function M.remaining(choices)
  return suggestion.remaining(M.current(choices))
end

---@param choices composer.Choices
---@return boolean
function M.is_kept(choices)
  return choices.is_chosen and M.remaining(choices) ~= nil
end

--- Whether the language server was asked for others already.
---@param choices composer.Choices
---@return boolean
function M.is_complete(choices)
  return M.is_kept(choices) and #choices.list > 1
end

--- Goes to the next one that goes on from the text as it is, round to the first.
---@param choices composer.Choices
function M.advance(choices)
  local num_choices = #choices.list
  for step = 1, num_choices do
    local index = (choices.index + step - 1) % num_choices + 1
    if suggestion.remaining(choices.list[index]) then
      choices.index, choices.is_chosen = index, true
      return
    end
  end
end

--- What an explicit request brought: the next one behind what is shown, which stays one of them.
---@param list composer.Suggestion[]
---@param shown? composer.Suggestion
---@return composer.Choices
function M.beside(list, shown)
  local rest = suggestion.remaining(shown)
  local choices = { list = list, index = 0, is_chosen = true }
  if rest then
    for index, other in ipairs(list) do
      choices.index = suggestion.remaining(other) == rest and index or choices.index
    end
    if choices.index == 0 then
      table.insert(list, 1, shown)
      choices.index = 1
    end
  end
  M.advance(choices)
  return choices
end

--- Puts a part of the one that is shown into the text; its rest remains.
---@param choices composer.Choices
---@param part composer.Part
---@return composer.Choices
function M.insert(choices, part)
  local current = M.current(choices)
  local rest = current and suggestion.insert(current, part)
  return { list = { rest }, index = 1, is_chosen = choices.is_chosen }
end

--- Which one it is, for who went through them.
---@param choices composer.Choices
---@return string?
function M.hint(choices)
  if choices.is_chosen and #choices.list > 1 then
    return (" (%d/%d)"):format(choices.index, #choices.list)
  end
end

return M
