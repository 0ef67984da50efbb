// A page that was opened from the disk may start no worker, and the search runs in one. Here a hidden frame stands for it: its
// script runs there, and messages go to and fro as with a worker.
"use strict"

// What a worker's script finds in its surroundings, inside of the frame.
const SURROUNDINGS = `
  postMessage = message => parent.postMessage(message, "*")
  importScripts = (...urls) => urls.reduce((before, url) => before.then(() => new Promise((done, failed) => {
    const script = document.createElement("script")
    Object.assign(script, {src: url, onload: done, onerror: failed})
    document.body.append(script)
  })), Promise.resolve())
`

class FrameWorker extends EventTarget {
  constructor(url) {
    super()
    this.frame = document.createElement("iframe")
    this.frame.hidden = true
    document.body.append(this.frame)
    this.receive = event => {
      if (event.source !== this.frame.contentWindow) return
      const message = new MessageEvent("message", {data: event.data})
      this.dispatchEvent(message)
      this.onmessage?.(message)
    }
    addEventListener("message", this.receive)
    const inside = this.frame.contentDocument
    inside.write(`<body><script>${SURROUNDINGS}<\/script><script src="${url}"><\/script>`)
    inside.close()
    this.loaded = new Promise(done => this.frame.contentWindow.addEventListener("load", done))
  }

  postMessage(data) {
    this.loaded.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", {data})))
  }

  terminate() {
    removeEventListener("message", this.receive)
    this.frame.remove()
  }
}

if (location.protocol === "file:") window.Worker = FrameWorker
