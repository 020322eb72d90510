// The page: one entry, chunks for what is needed late (the terminal), names by content.
import { defineConfig } from "vite";

export default defineConfig({
  // Files lie under /static/assets/; a chunk finds its neighbours by its own place.
  base: "./",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    target: "es2022",
    manifest: "manifest.json",
    assetsInlineLimit: 0,
    cssCodeSplit: true,
    modulePreload: { polyfill: false },
    rollupOptions: { input: { page: "src/main.tsx" } },
  },
  test: { environment: "happy-dom", include: ["test/**/*.test.{ts,tsx}"] },
});
