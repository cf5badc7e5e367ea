; inherits: ecmascript
(field_definition property: [(property_identifier) (private_property_identifier)] @name) @field
(field_definition
  property: [(property_identifier) (private_property_identifier)] @name
  value: [(arrow_function body: (_) @body) (function_expression body: (_) @body)]) @method
