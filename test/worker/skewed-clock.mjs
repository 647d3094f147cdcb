/** For `node --import`: a machine whose clock is a day ahead and runs backwards by a minute every second. */
const started = Date.now();
const now = Date.now.bind(Date);
const skewed = () => {
  const passed = now() - started;
  return started + 86_400_000 - passed * 60;
};
globalThis.Date = class extends Date {
  constructor(...args) {
    super(...(args.length === 0 ? [skewed()] : args));
  }
  static now() {
    return skewed();
  }
};
