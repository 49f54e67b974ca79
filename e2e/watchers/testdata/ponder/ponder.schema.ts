import { onchainTable } from "ponder";

export const transfer = onchainTable("transfer", (t) => ({
  id: t.text().primaryKey(),
  from: t.hex().notNull(),
  item: t.bigint().notNull(),
  amount: t.bigint().notNull(),
  block: t.bigint().notNull(),
  time: t.bigint().notNull(),
  hash: t.hex().notNull(),
}));
