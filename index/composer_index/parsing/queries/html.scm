(element (start_tag (attribute
  (attribute_name) @if.id
  [
    (attribute_value) @name @unless.filled
    (quoted_attribute_value (attribute_value) @name @unless.filled)
  ]))) @field
(element (self_closing_tag (attribute
  (attribute_name) @if.id
  [
    (attribute_value) @name @unless.filled
    (quoted_attribute_value (attribute_value) @name @unless.filled)
  ]))) @field

(attribute
  (attribute_name) @if.src
  (quoted_attribute_value (attribute_value) @import))
(element (start_tag
  (tag_name) @if.link
  (attribute (attribute_name) @if.href (quoted_attribute_value (attribute_value) @import))))

(script_element (start_tag) @language (raw_text) @embedded) @element
(style_element (start_tag) @language (raw_text) @embedded) @element
