import { handler } from "leasehold";

interface Greeting {
  name: string;
}

export default handler<Greeting>((ctx, input) => {
  console.info("greeting", { name: input.name, attempt: ctx.run.attempt });
  ctx.signal.throwIfAborted(); // before every side effect
  return { text: `Hello, ${input.name}!` };
});
