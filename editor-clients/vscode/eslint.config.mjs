import eslint from "@eslint/js";
import tseslint from "typescript-eslint";

export default tseslint.config(
  { ignores: ["out/"] },
  eslint.configs.recommended,
  ...tseslint.configs.strictTypeChecked,
  ...tseslint.configs.stylisticTypeChecked,
  {
    languageOptions: { parserOptions: { projectService: { allowDefaultProject: ["*.mjs"] } } },
    rules: {
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
    },
  },
  {
    // node's test runner returns promises that it awaits itself.
    files: ["test/**"],
    rules: { "@typescript-eslint/no-floating-promises": "off" },
  },
  { files: ["*.mjs"], ...tseslint.configs.disableTypeChecked, languageOptions: { globals: { process: "readonly" } } },
);
