// A command of AssemblyScript, for its WASI shim: greets whom standard input names.

const heard = new ArrayBuffer(1024);
const length = process.stdin.read(heard);
process.stdout.write("Hello, " + String.UTF8.decode(heard.slice(0, length)) + "!");
