(function_item name: (_) @name body: (_) @body) @function
(function_signature_item name: (_) @name) @function
(struct_item name: (_) @name body: (_) @body) @class
(struct_item name: (_) @name) @class
(union_item name: (_) @name body: (_) @body) @class
(field_declaration name: (_) @name) @field
(enum_item name: (_) @name body: (_) @body) @enum
(enum_variant name: (_) @name) @constant
(trait_item name: (_) @name body: (_) @body) @interface
(associated_type name: (_) @name) @type
(type_item name: (_) @name) @type
(mod_item name: (_) @name body: (_) @body) @module
(macro_definition name: (_) @name) @macro
(const_item name: (_) @name @unless.blank) @constant
(static_item name: (_) @name) @constant
(impl_item type: [(type_identifier) (primitive_type)] @name body: (_) @body) @scope
(impl_item type: (generic_type type: (type_identifier) @name) body: (_) @body) @scope
(impl_item type: (scoped_type_identifier name: (_) @name) body: (_) @body) @scope
(impl_item
  type: (reference_type
    type: [(type_identifier) @name (generic_type type: (type_identifier) @name)])
  body: (_) @body) @scope

(use_declaration argument: (_) @import)
(mod_item name: (_) @import !body)
(extern_crate_declaration name: (_) @import)
