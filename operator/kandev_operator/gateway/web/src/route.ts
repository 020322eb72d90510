// Which page an address is.

export type Route = { readonly page: "list" } | { readonly page: "session"; readonly id: string };

export function routeOf(pathname: string): Route {
  const found = /^\/sessions\/([^/]+)\/?$/.exec(pathname);
  return found?.[1] ? { page: "session", id: decodeURIComponent(found[1]) } : { page: "list" };
}

export function href(id: string): string {
  return `/sessions/${encodeURIComponent(id)}`;
}
