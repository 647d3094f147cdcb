import { describe, expect, test } from "vitest";
import { canonicalAddress, isPublicAddress } from "./address-policy.ts";

describe("addresses that may be dialled (F33)", () => {
  test.each([
    ["8.8.8.8", "a public address"],
    ["93.184.215.14", "a public address"],
    ["172.15.255.255", "just below 172.16/12"],
    ["172.32.0.0", "just above 172.16/12"],
    ["100.63.255.255", "just below 100.64/10"],
    ["100.128.0.0", "just above 100.64/10"],
    ["2606:4700:4700::1111", "a public address"],
    ["2a00:1450:4001:80b::200e", "a public address"],
  ])("%s: %s", (address) => {
    expect(isPublicAddress(address)).toBe(true);
  });
});

describe("addresses that may not (F33)", () => {
  test.each([
    ["0.0.0.0", "this network"],
    ["0.1.2.3", "this network"],
    ["10.0.0.1", "private"],
    ["10.255.255.255", "private"],
    ["100.64.0.1", "carrier-grade NAT"],
    ["100.100.100.200", "a metadata service within it"],
    ["127.0.0.1", "loopback"],
    ["127.255.255.254", "loopback"],
    ["169.254.169.254", "a metadata service"],
    ["169.254.170.2", "container credentials"],
    ["172.16.0.1", "private"],
    ["172.31.255.255", "private"],
    ["192.0.0.192", "protocol assignments, a metadata service"],
    ["192.0.2.1", "documentation"],
    ["192.88.99.1", "6to4 relays"],
    ["192.168.1.1", "private"],
    ["198.18.0.1", "benchmarking"],
    ["198.51.100.7", "documentation"],
    ["203.0.113.7", "documentation"],
    ["224.0.0.1", "multicast"],
    ["239.255.255.250", "multicast"],
    ["240.0.0.1", "reserved"],
    ["255.255.255.255", "broadcast"],
    ["168.63.129.16", "the platform's own server"],
    ["::", "unspecified"],
    ["::1", "loopback"],
    ["::127.0.0.1", "an IPv4 address, the old way"],
    ["::8.8.8.8", "an IPv4 address, the old way"],
    ["::ffff:127.0.0.1", "a mapped IPv4 address"],
    ["::ffff:7f00:1", "a mapped IPv4 address"],
    ["::ffff:8.8.8.8", "a mapped IPv4 address"],
    ["64:ff9b::a9fe:a9fe", "NAT64"],
    ["64:ff9b:1::7f00:1", "local NAT64"],
    ["100::1", "discard"],
    ["2001::1", "Teredo"],
    ["2001:db8::1", "documentation"],
    ["2002:7f00:1::", "6to4"],
    ["3fff::1", "documentation"],
    ["5f00::1", "segment routing"],
    ["fc00::1", "unique local"],
    ["fd00:ec2::254", "a metadata service"],
    ["fe80::1", "link-local"],
    ["fe80::1%eth0", "link-local, with a zone"],
    ["fec0::1", "site-local"],
    ["ff02::1", "multicast"],
    ["127.1", "a short form of loopback"],
    ["0x7f.0.0.1", "a hexadecimal form of loopback"],
    ["2130706433", "a decimal form of loopback"],
    ["", "nothing"],
    ["example.com", "a name"],
  ])("%s: %s", (address) => {
    expect(isPublicAddress(address)).toBe(false);
  });
});

test("an address has one spelling", () => {
  expect(canonicalAddress("::ffff:10.0.0.1")).toBe("10.0.0.1");
  expect(canonicalAddress("2606:4700::")).toBe(canonicalAddress("2606:4700:0:0:0:0:0:0"));
});
