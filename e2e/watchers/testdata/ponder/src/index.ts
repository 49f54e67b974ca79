import { ponder } from "ponder:registry";
import { transfer } from "ponder:schema";

ponder.on("Token:Transfer", async ({ event, context }) => {
  await context.db.insert(transfer).values({
    id: event.id,
    from: event.args.from,
    item: event.args.id,
    amount: event.args.amount,
    block: event.block.number,
    time: event.block.timestamp,
    hash: event.transaction.hash,
  });
});
