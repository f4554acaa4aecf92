// A library of AssemblyScript for a JavaScript host, as its compiler makes it where nobody says more.

export function greet(name: string): string {
  return "Hello, " + name + "!";
}
