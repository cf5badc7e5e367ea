(function_declaration name: (_) @name body: (_) @body) @function
(method_declaration
  receiver: (parameter_list (parameter_declaration type: (_) @owner))
  name: (_) @name
  body: (_) @body) @method
(type_declaration (type_spec name: (_) @name type: (struct_type) @body) @class)
(type_declaration (type_spec name: (_) @name type: (interface_type) @body) @interface)
(type_declaration (type_spec name: (_) @name) @type)
(type_declaration (type_alias name: (_) @name) @type)
(type_declaration . "type" . (type_spec name: (_) @name) .) @outer
(method_elem name: (_) @name) @method
(field_declaration name: (_) @name) @field
(source_file (const_declaration (const_spec name: (_) @name @unless.blank) @constant))
(source_file (var_declaration (var_spec name: (_) @name @unless.blank) @variable))
(source_file (var_declaration (var_spec_list
  (var_spec name: (_) @name @unless.blank) @variable)))

(import_spec path: (_) @import)
