import { z } from "zod";

/** Which hosts may be fetched: a name means itself and everything below it. Null: no rule. */
export const DomainRule = z.strictObject({
  allowed: z.array(z.string()).nullable(),
  blocked: z.array(z.string()).nullable(),
});
export type DomainRule = z.infer<typeof DomainRule>;

/** Names of domains as an operator writes them: separated by commas. */
export const DomainNames = z
  .string()
  .transform((list) => list.split(",").map((name) => name.trim()))
  .refine((names) => names.every((name) => /^[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*$/.test(name)), {
    error: "must be host names, separated by commas",
  });

/** Whether a rule lets a host through; `host` is in the spelling of a parsed URL. */
export function allowsHost(rule: DomainRule, host: string): boolean {
  const covers = (domain: string) => {
    const name = domain.toLowerCase().replace(/\.+$/, "");
    return host === name || host.endsWith(`.${name}`);
  };
  return (rule.allowed?.some(covers) ?? true) && !(rule.blocked?.some(covers) ?? false);
}
