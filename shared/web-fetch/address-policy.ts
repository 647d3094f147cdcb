import ipaddr from "ipaddr.js";

/** Public addresses that belong to the platform a machine runs on: Azure's wire server answers from within. */
const PLATFORM_ADDRESSES = new Set(["168.63.129.16"]);

/** All of IPv6 that is given out to networks, and what of it is for documents only. */
const GLOBAL_UNICAST = ipaddr.IPv6.parseCIDR("2000::/3");
const DOCUMENTATION = ipaddr.IPv6.parseCIDR("3fff::/20");

/**
 * Whether an address is on the public internet. Everything else is refused, what is not known to be public included:
 * loopback, private, link-local (metadata services), carrier-grade NAT, multicast, reserved, and every form in which an
 * IPv6 address stands for an IPv4 one (mapped, NAT64, 6to4, Teredo), because it would reach that one.
 */
export function isPublicAddress(text: string): boolean {
  if (!ipaddr.isValid(text)) {
    return false;
  }
  const address = ipaddr.parse(text);
  if (address.range() !== "unicast") {
    return false;
  }
  return address instanceof ipaddr.IPv4
    ? !PLATFORM_ADDRESSES.has(address.toString())
    : address.match(GLOBAL_UNICAST) && !address.match(DOCUMENTATION);
}

/** One spelling for each address, so that two can be compared. */
export function canonicalAddress(text: string): string {
  return ipaddr.isValid(text) ? ipaddr.process(text).toNormalizedString() : text;
}
