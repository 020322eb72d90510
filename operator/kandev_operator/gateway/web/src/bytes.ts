// Bytes as base64, as frames carry them.

export function decode(text: string): Uint8Array {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at += 1) bytes[at] = binary.charCodeAt(at);
  return bytes;
}

export function encode(bytes: Uint8Array): string {
  let binary = "";
  for (let at = 0; at < bytes.length; at += 8192) {
    binary += String.fromCharCode(...bytes.subarray(at, at + 8192));
  }
  return btoa(binary);
}

export function encodeText(text: string): string {
  return encode(new TextEncoder().encode(text));
}

/** xterm's `onBinary` gives one byte per character. */
export function encodeBinary(text: string): string {
  return btoa(text);
}
