import { qwikCity } from '@builder.io/qwik-city/vite';
import { qwikVite } from '@builder.io/qwik/optimizer';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vite';
import { chunkOf } from './adapters/chunks';
import { fixQwik } from './adapters/qwik';

export default defineConfig({
  plugins: [fixQwik(), qwikCity(), qwikVite({ client: { outDir: 'dist/app' }, optimizerOptions: { inlineStylesUpToBytes: 0 } })],
  resolve: {
    alias: {
      '~': fileURLToPath(new URL('src', import.meta.url)),
      // The definitions of what scripts can call, for completion.
      '~docs': fileURLToPath(new URL('../docs/api', import.meta.url)),
      // A new script begins with what scriptctl init writes.
      '~scaffold': fileURLToPath(new URL('../internal/scaffold/files', import.meta.url)),
    },
  },
  build: { target: 'es2022', assetsInlineLimit: 0, cssCodeSplit: false, rollupOptions: { output: { manualChunks: chunkOf } } },
});
