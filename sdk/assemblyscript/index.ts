// The compiler looks for a package's index here.
export * from "./assembly/index";
