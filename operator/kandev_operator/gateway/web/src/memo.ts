// A component that is drawn again only when one of its properties is another one.

import { Component, createElement, type FunctionComponent, type VNode } from "preact";

export function memo<P extends object>(inner: FunctionComponent<P>): FunctionComponent<P> {
  class Memo extends Component<P> {
    override shouldComponentUpdate(next: Readonly<P>): boolean {
      const now = this.props as Record<string, unknown>;
      return Object.entries(next).some(([name, value]) => now[name] !== value);
    }

    override render(): VNode {
      return createElement(inner as FunctionComponent, this.props);
    }
  }
  return Memo as unknown as FunctionComponent<P>;
}
