// Search from disk: browsers start no worker from a file, so that the search's script runs in a hidden frame instead.
// The script looks for `IFrameWorker` in its parent to know that it does.
class IFrameWorker extends EventTarget {
  constructor(address) {
    super();
    this.onmessage = null;
    this.frame = document.createElement("iframe");
    this.frame.hidden = true;
    document.body.append(this.frame);
    const inside = this.frame.contentWindow;
    inside.postMessage = (data) => this.tell(new MessageEvent("message", { data }));
    inside.importScripts = (...addresses) =>
      addresses.reduce((before, one) => before.then(() => this.load(one)), Promise.resolve());
    this.ready = this.load(address);
  }
  load(address) {
    return new Promise((done, failed) => {
      const script = this.frame.contentDocument.createElement("script");
      Object.assign(script, { src: new URL(address, document.baseURI).href, onload: done, onerror: failed });
      this.frame.contentDocument.body.append(script);
    });
  }
  tell(message) {
    this.onmessage?.(message);
    this.dispatchEvent(new MessageEvent("message", { data: message.data }));
  }
  postMessage(data) {
    const inside = this.frame.contentWindow;
    this.ready.then(() => inside.dispatchEvent(new inside.MessageEvent("message", { data })));
  }
  terminate() {
    this.frame.remove();
  }
}
if (location.protocol === "file:") window.Worker = window.IFrameWorker = IFrameWorker;
