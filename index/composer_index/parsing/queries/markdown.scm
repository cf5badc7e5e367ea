(section (atx_heading heading_content: (_) @name)) @heading
(setext_heading heading_content: (_) @name) @heading

(fenced_code_block (info_string (language) @language) (code_fence_content) @embedded)
