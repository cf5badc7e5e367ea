(rule_set (selectors) @name (block) @body) @class
(keyframes_statement (keyframes_name) @name) @function
(declaration (property_name) @name @if.custom) @variable

(import_statement (string_value) @import)
(import_statement (call_expression (arguments (_) @import)))
