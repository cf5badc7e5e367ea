(section (atx_heading heading_content: (_) @name)) @heading
(setext_heading heading_content: (_) @name) @heading
