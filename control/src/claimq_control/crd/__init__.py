"""The CustomResourceDefinition of ReliableQueue, built from the declarations of the manifest. Pure."""
