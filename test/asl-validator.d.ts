declare module "asl-validator" {
  /** The library ships no types; this is the part that we call. */
  export default function validate(definition: unknown): {
    readonly isValid: boolean;
    readonly errors: readonly { readonly Message?: string; readonly message?: string; readonly path?: string }[];
    readonly errorsText: () => string;
  };
}
