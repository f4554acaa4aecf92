import { handler } from "leasehold";

export default handler((ctx, input) => {
  console.info("greeting", { name: input.name, attempt: ctx.run.attempt });
  ctx.signal.throwIfAborted(); // before every side effect
  return { text: `Hello, ${input.name}!` };
});
