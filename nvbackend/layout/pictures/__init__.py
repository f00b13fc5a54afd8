"""Pictures of who holds what, and of where shared memory lies in the banks."""

from nvbackend.layout.pictures.pictures import banks, fragments, memory, thread_values

__all__ = ["banks", "fragments", "memory", "thread_values"]
